/* The perceptron. A layer's parameters are its weights, one row per input, and then its biases; all layers lie in one
 * array. */

#ifndef NETWORK_H
#define NETWORK_H

#include <stddef.h>

#include "settings.h"
#include "vectors.h"

typedef struct {
    int inputs, outputs;
    int weights, biases; /* where they begin in the array of all parameters */
} Layer;

typedef struct {
    int depth, size; /* layers, and parameters in all */
    int shared;      /* whether the places of a vector are one round */
    Layer layers[MOST_LAYERS];
} Network;

static Network make_network(const Shape *shape)
{
    Network network = {.depth = shape->layers, .size = 0, .shared = shape->shared};
    for (int l = 0; l < shape->layers; l++) {
        int inputs = shape->widths[l], outputs = shape->widths[l + 1];
        network.layers[l] = (Layer){inputs, outputs, network.size, network.size + inputs * outputs};
        network.size += (inputs + 1) * outputs;
    }
    return network;
}

INLINE int observation_size(const Network *network) { return network->layers[0].inputs; }

INLINE int action_count(const Network *network) { return network->layers[network->depth - 1].outputs; }

/* What observations are shifted and divided by before the network reads them. */
typedef struct {
    int on;
    vector *mean, *deviation;
} Scale;

/* Scales rows of observations, perhaps in place. */
INLINE void scale_rows(const Scale *scale, const vector *from, vector *to, size_t rows, int size)
{
    for (size_t row = 0; row < rows; row++)
        for (int i = 0; i < size; i++)
            to[row * size + i] = (from[row * size + i] - scale->mean[i]) / scale->deviation[i];
}

/* Takes a lane's constants for one place, where there are any. */
static void read_scale(Scale *scale, const float *mean, const float *deviation, size_t lane, int size, int place)
{
    scale->on = mean != NULL;
    for (int i = 0; scale->on && i < size; i++) {
        scale->mean[i][place] = mean[lane * size + i];
        scale->deviation[i][place] = deviation[lane * size + i];
    }
}

/* Rows of each layer's inputs, the first layer's being the observations, and of the Q-values. */
typedef struct {
    const vector *observations;
    vector *hidden[MOST_LAYERS]; /* the inputs of layers 1, 2, … */
    vector *q;
} Activations;

INLINE const vector *inputs_of(const Activations *rows, int layer)
{
    return layer ? rows->hidden[layer] : rows->observations;
}

INLINE void forward_with(const Network *network, const vector *theta, const Activations *rows, int count,
                         const int alone)
{
    const int last = network->depth - 1;
    for (int l = 0; l <= last; l++) {
        const Layer *layer = &network->layers[l];
        const Matrix inputs = {inputs_of(rows, l), layer->inputs, 1};
        const Matrix weights = {theta + layer->weights, layer->outputs, 1};
        Product product = {
            .out_down = layer->outputs, .start = theta + layer->biases, .start_down = 0, .steps = layer->inputs};
        for (int hidden = 0; hidden < 2; hidden++) { /* written out, so that each is compiled for itself */
            if (hidden != (l < last))
                continue;
            product.out = hidden ? rows->hidden[l + 1] : rows->q;
            product.rectify = hidden;
            if (alone)
                multiply_row(product, inputs, weights, layer->outputs);
            else
                multiply(product, inputs, weights, count, layer->outputs);
        }
    }
}

APART void forward_one(const Network *network, const vector *theta, const Activations *row)
{
    forward_with(network, theta, row, 1, 1);
}

APART void forward(const Network *network, const vector *theta, const Activations *rows, int count)
{
    forward_with(network, theta, rows, count, 0);
}

/* The first of the largest numbers, or of those that are none: what jnp.argmax gives. */
INLINE mask best(const vector *q, int actions)
{
    mask chosen = {0};
    vector most = q[0];
    for (int a = 1; a < actions; a++) {
        mask better = ~(q[a] <= most) & (most == most);
        chosen = (better & a) | (~better & chosen);
        most = choose(better, q[a], most);
    }
    return chosen;
}

/* One round's parameters: from an array of all lanes' to a place in the team, and back. */
INLINE void move_parameters(const Network *network, const Tree *tree, int lane, vector *theta, int place,
                            const int into_team)
{
    for (int leaf = 0; leaf < 2 * network->depth; leaf++) {
        const Layer *layer = &network->layers[leaf / 2];
        const int begin = leaf % 2 ? layer->biases : layer->weights;
        const int count = leaf % 2 ? layer->outputs : layer->inputs * layer->outputs;
        float *from = tree->leaves[leaf] + (size_t)lane * count;
        for (int i = 0; i < count; i++)
            if (into_team)
                theta[begin + i][place] = from[i];
            else
                from[i] = theta[begin + i][place];
    }
}

#endif
