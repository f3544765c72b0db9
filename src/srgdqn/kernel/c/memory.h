/* One allocation for all arrays of a team, handed out piece by piece, zeroed and aligned. */

#ifndef MEMORY_H
#define MEMORY_H

#include <stdlib.h>

#include "learner.h"

#define ALIGNMENT 64

typedef struct {
    char *at; /* NULL while it is only measured how much is needed */
    size_t used;
} Arena;

static void *take(Arena *arena, size_t bytes)
{
    void *piece = arena->at ? arena->at + arena->used : NULL;
    arena->used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return piece;
}

static vector *take_vectors(Arena *arena, size_t count) { return take(arena, count * sizeof(vector)); }

static int allocate(Arena *arena)
{
    arena->at = aligned_alloc(ALIGNMENT, arena->used);
    if (arena->at)
        memset(arena->at, 0, arena->used);
    arena->used = 0;
    return arena->at != NULL;
}

static Activations take_activations(Arena *arena, const Network *network, size_t rows)
{
    Activations taken = {.q = take_vectors(arena, rows * action_count(network))};
    for (int l = 1; l < network->depth; l++)
        taken.hidden[l] = take_vectors(arena, rows * network->layers[l].inputs);
    return taken;
}

static Scale take_scale(Arena *arena, const Network *network)
{
    const int size = observation_size(network);
    return (Scale){.mean = take_vectors(arena, size), .deviation = take_vectors(arena, size)};
}

static Factors take_factors(Arena *arena, const Network *network, int rows_each, size_t transitions)
{
    Factors taken = {.rows = take_activations(arena, network, rows_each * transitions)};
    for (int l = 0; l < network->depth; l++)
        taken.deltas[l] = take_vectors(arena, transitions * network->layers[l].outputs);
    return taken;
}

static Batch take_batch(Arena *arena, const Network *network, int rows_each, size_t transitions)
{
    return (Batch){
        .rows_each = rows_each,
        .observations = take_vectors(arena, transitions * rows_each * observation_size(network)),
        .action = take_vectors(arena, transitions),
        .reward = take_vectors(arena, transitions),
        .discount = take_vectors(arena, transitions),
        .y = take_vectors(arena, transitions),
    };
}

static Workspace take_workspace(Arena *arena, const Network *network, const Shape *shape)
{
    const int each = shape->target == TARGET_CURRENT ? 2 : 1;
    const size_t b = shape->inner_batch, picked = has_picks(shape) ? ((size_t)shape->inner_iterations + 1) * b : 0;
    Workspace work = {
        .batch = take_batch(arena, network, each, shape->rows),
        .picks = take_batch(arena, network, each, picked),
        .on_batch = take_factors(arena, network, each, AT_ONCE),
        .on_picks = {take_factors(arena, network, each, 2 * b), take_factors(arena, network, each, 2 * b)},
        .on_every_pick = take_factors(arena, network, each, shape->estimator == SVRG ? picked : 0),
        .targets = take_activations(arena, network, AT_ONCE),
        .next_observations = take_vectors(arena, (size_t)shape->rows * observation_size(network)),
        .keeps_gradient = shape->adam_takes_gradient,
    };
    vector **arrays[] = {&work.anchor, &work.delta, &work.gradient, &work.reference, &work.previous_theta};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = take_vectors(arena, network->size);
    return work;
}

/* Scales all observations of D. */
static void scale_batch(const Scale *scale, const Network *network, const Workspace *work, size_t rows)
{
    const int size = observation_size(network);
    vector *seen = work->batch.observations;
    scale_rows(scale, seen, seen, rows * work->batch.rows_each, size);
    if (work->batch.rows_each == 1)
        scale_rows(scale, work->next_observations, work->next_observations, rows, size);
}

static Learner take_learner(Arena *arena, const Network *network, const Shape *shape)
{
    const size_t size = network->size;
    return (Learner){
        .theta = take_vectors(arena, size),
        .target = has_target_network(shape) ? take_vectors(arena, size) : NULL,
        .theta_before = is_per_batch(shape) ? take_vectors(arena, size) : NULL,
        .delta_before = is_per_batch(shape) ? take_vectors(arena, size) : NULL,
        .moments = {.first = take_vectors(arena, size), .second = take_vectors(arena, size)},
    };
}

#endif
