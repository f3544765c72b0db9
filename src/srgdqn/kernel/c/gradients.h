/* Gradients of the Bellman loss as their factors: each layer's inputs and deltas, whose outer product they are. */

#ifndef GRADIENTS_H
#define GRADIENTS_H

#include "network.h"

/* Transitions as gradients see them: rows of S, each followed by that of S' unless y is given. */
typedef struct {
    int rows_each; /* 2, or 1 where y is given */
    vector *observations, *action, *reward, *discount, *y;
} Batch;

typedef struct {
    int rows_each;
    Activations rows;
    vector *deltas[MOST_LAYERS];
} Factors;

/* Those of one pick, or of some transitions, from row `row` on. */
typedef struct {
    const Factors *factors;
    int row;
} Pick;

INLINE const vector *pick_inputs(Pick pick, int l, const Layer *layer)
{
    return inputs_of(&pick.factors->rows, l) + (size_t)pick.row * pick.factors->rows_each * layer->inputs;
}

INLINE const vector *pick_deltas(Pick pick, int l, const Layer *layer)
{
    return pick.factors->deltas[l] + (size_t)pick.row * layer->outputs;
}

typedef struct {
    vector loss, max_q; /* sums over transitions */
} Seen;

/* How errors become slopes. */
typedef struct {
    int huber;
    vector huber_delta;
} Loss;

INLINE vector largest(const vector *q, int actions)
{
    vector most = q[0];
    for (int a = 1; a < actions; a++)
        most = larger(most, q[a]);
    return most;
}

/* The slopes of the losses, each times `scale`, as deltas of the last layer; adds to what is seen. */
INLINE void output_deltas(const Loss *loss, const Batch *batch, int first, int count, float scale, const vector *q,
                          int actions, vector *delta, Seen *seen)
{
    const int each = batch->rows_each;
    for (int t = first; t < first + count; t++, q += each * actions, delta += actions) {
        vector y = each == 1 ? batch->y[t] : batch->reward[t] + batch->discount[t] * largest(q + actions, actions);
        vector taken = {0};
        for (int a = 0; a < actions; a++)
            taken += where(batch->action[t] == (float)a, q[a]);
        vector error = taken - y, inside = error;
        if (loss->huber)
            inside = at_least(at_most(error, loss->huber_delta), -loss->huber_delta);
        for (int a = 0; a < actions; a++)
            delta[a] = where(batch->action[t] == (float)a, 2 * inside * scale);
        seen->loss += inside * (2 * error - inside);
        seen->max_q += largest(q, actions);
    }
}

/* A forward pass over `count` transitions from number `first` on, and the deltas of the last layer. */
INLINE void predict(const Network *network, const Loss *loss, const vector *theta, const Batch *batch, int first,
                    int count, float scale, Factors *out, Seen *seen)
{
    const int each = batch->rows_each, last = network->depth - 1;
    out->rows_each = each;
    out->rows.observations = batch->observations + (size_t)first * each * observation_size(network);
    forward(network, theta, &out->rows, count * each);
    output_deltas(loss, batch, first, count, scale, out->rows.q, action_count(network), out->deltas[last], seen);
}

/* Factors of the gradients at θ of `count` transitions from number `first` on, each times `scale`. */
APART void query(const Network *network, const Loss *loss, const vector *theta, const Batch *batch, int first,
                  int count, float scale, Factors *out, Seen *seen)
{
    const int each = batch->rows_each, last = network->depth - 1;
    predict(network, loss, theta, batch, first, count, scale, out, seen);
    for (int l = last; l > 0; l--) {
        const Layer *layer = &network->layers[l];
        Product product = {
            .out = out->deltas[l - 1],
            .out_down = layer->inputs,
            .gate = out->rows.hidden[l],
            .gate_down = each * layer->inputs,
            .steps = layer->outputs,
        };
        multiply(product, (Matrix){out->deltas[l], layer->outputs, 1},
                 (Matrix){theta + layer->weights, 1, layer->outputs}, count, layer->inputs);
    }
}

/* Adds the gradients of `count` transitions to a sum of such, or begins one. */
APART void add_up(const Network *network, Pick from, int count, vector *gradient, int begin)
{
    for (int l = 0; l < network->depth; l++) {
        const Layer *layer = &network->layers[l];
        const vector *deltas = pick_deltas(from, l, layer);
        vector *weights = gradient + layer->weights, *biases = gradient + layer->biases;
        Product product = {
            .out = weights,
            .out_down = layer->outputs,
            .start = begin ? NULL : weights,
            .start_down = layer->outputs,
            .steps = count,
        };
        multiply(product, (Matrix){pick_inputs(from, l, layer), 1, from.factors->rows_each * layer->inputs},
                 (Matrix){deltas, layer->outputs, 1}, layer->inputs, layer->outputs);
        for (int o = 0; o < layer->outputs; o++) {
            vector sum = begin ? (vector){0} : biases[o];
            for (int t = 0; t < count; t++)
                sum += deltas[t * layer->outputs + o];
            biases[o] = sum;
        }
    }
}

/* As many transitions at a time as leave room for the parameters in the nearest cache. */
#define AT_ONCE 32

/* The mean gradient over the first `count` transitions of a batch (line 5 of Algorithm 1). */
static Seen mean_gradient(const Network *network, const Loss *loss, const vector *theta, const Batch *batch, int count,
                          Factors *room, vector *gradient)
{
    Seen seen = {{0}, {0}};
    for (int first = 0; first < count; first += AT_ONCE) {
        const int some = count - first < AT_ONCE ? count - first : AT_ONCE;
        Seen part = {{0}, {0}}; /* few to a sum, as adding little to much loses digits */
        query(network, loss, theta, batch, first, some, 1.0f / count, room, &part);
        seen.loss += part.loss;
        seen.max_q += part.max_q;
        add_up(network, (Pick){room, 0}, some, gradient, first == 0);
    }
    if (network->shared) {
        for (int i = 0; i < network->size; i++)
            gradient[i] = averaged(gradient[i]);
        seen = (Seen){averaged(seen.loss), averaged(seen.max_q)};
    }
    return seen;
}

/* The losses and the largest Q-values of the first `count` transitions of a batch, without their gradients. */
APART Seen look_at(const Network *network, const Loss *loss, const vector *theta, const Batch *batch, int count,
                   Factors *room)
{
    Seen seen = {{0}, {0}};
    for (int first = 0; first < count; first += AT_ONCE) {
        const int some = count - first < AT_ONCE ? count - first : AT_ONCE;
        Seen part = {{0}, {0}};
        predict(network, loss, theta, batch, first, some, 1.0f / count, room, &part);
        seen.loss += part.loss;
        seen.max_q += part.max_q;
    }
    return network->shared ? (Seen){averaged(seen.loss), averaged(seen.max_q)} : seen;
}

INLINE vector value_of(mask action, const vector *q, int actions)
{
    vector value = {0};
    for (int a = 0; a < actions; a++)
        value += where(action == a, q[a]);
    return value;
}

/* The targets y of a batch under parameters that stand still, from rows of S'. The action of S' is the best by these
 * parameters or, of Double DQN, by others, unless they are NULL. */
static void freeze_targets(const Network *network, const vector *theta, const vector *chooser,
                           const vector *next_observations, Batch *batch, int count, Activations *room)
{
    const int actions = action_count(network);
    mask chosen[AT_ONCE];
    for (int first = 0; first < count; first += AT_ONCE) {
        const int some = count - first < AT_ONCE ? count - first : AT_ONCE;
        room->observations = next_observations + (size_t)first * observation_size(network);
        if (chooser)
            forward(network, chooser, room, some);
        for (int t = 0; chooser && t < some; t++)
            chosen[t] = best(room->q + t * actions, actions);
        forward(network, theta, room, some);
        for (int t = 0; t < some; t++) {
            const vector *q = room->q + t * actions;
            const vector value = chooser ? value_of(chosen[t], q, actions) : largest(q, actions);
            batch->y[first + t] = batch->reward[first + t] + batch->discount[first + t] * value;
        }
    }
}

#endif
