/* The learner of one round whose environment runs in Python. All places of a vector hold its parameters; where D can be
 * shared out evenly among them, each computes the gradients of its share. */

#ifndef HOST_LEARNER_H
#define HOST_LEARNER_H

#include "memory.h"

typedef struct {
    Arena arena;
    Shape shape;
    int rows; /* of D in all */
    Network network;
    Workspace work;
    Learner learner, saved; /* now, and before the outer iteration */
    TeamNumbers numbers;
    Activations acting;
    Scale scale;
    vector *observation;
} HostLearner;

static void take_host_learner(HostLearner *host, Arena *arena)
{
    const Network *network = &host->network;
    host->work = take_workspace(arena, network, &host->shape);
    host->learner = take_learner(arena, network, &host->shape);
    host->saved = take_learner(arena, network, &host->shape);
    host->acting = take_activations(arena, network, 1);
    host->scale = take_scale(arena, network);
    host->observation = take_vectors(arena, observation_size(network));
}

static HostLearner *make_host_learner(const Shape *shape, const float *numbers)
{
    HostLearner *host = aligned_alloc(ALIGNMENT, (sizeof *host + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (!host)
        return NULL;
    memset(host, 0, sizeof *host);
    host->shape = *shape;
    host->rows = shape->rows;
    host->shape.shared = shape->rows % TEAM == 0;
    if (host->shape.shared)
        host->shape.rows = shape->rows / TEAM;
    host->network = make_network(&host->shape);
    vector *each = (vector *)&host->numbers;
    for (size_t i = 0; i < sizeof(Numbers) / sizeof(float); i++)
        each[i] = every(numbers[i]);
    take_host_learner(host, &host->arena);
    if (!allocate(&host->arena)) {
        free(host);
        return NULL;
    }
    take_host_learner(host, &host->arena);
    return host;
}

static void move_state(HostLearner *host, const LearnerState *state, int into)
{
    const Network *network = &host->network;
    Learner *learner = &host->learner;
    for (int place = 0; place < (into ? TEAM : 1); place++)
        move_learner(network, state->learner, 0, learner, place, into);
    for (int place = 0; into && place < TEAM; place++)
        read_scale(&host->scale, state->mean, state->deviation, 0, observation_size(network), place);
    if (into) {
        learner->moments.updates = (mask){0} + *state->updates;
        learner->iterations = (mask){0} + *state->iterations;
    } else {
        *state->updates = learner->moments.updates[0];
        *state->iterations = learner->iterations[0];
    }
}

/* Where transition t of D lies: all of a vector's places at `row`, or one of them. */
typedef struct {
    int row, place;
} Position;

INLINE Position position_of(const HostLearner *host, int t)
{
    return host->shape.shared ? (Position){t / TEAM, t % TEAM} : (Position){t, -1};
}

INLINE void put(vector *at, Position position, float value)
{
    if (position.place < 0)
        *at = every(value);
    else
        (*at)[position.place] = value;
}

static void read_batch(HostLearner *host, const float *rows)
{
    const Shape *shape = &host->shape;
    const Batch batch = host->work.batch;
    const int size = observation_size(&host->network), seen = batch.rows_each * size;
    const float gamma = host->numbers.gamma[0];
    for (int t = 0; t < host->rows; t++, rows += 2 * size + 3) {
        const Position position = position_of(host, t);
        for (int i = 0; i < seen; i++)
            put(&batch.observations[position.row * seen + i], position, rows[i]);
        for (int i = 0; seen == size && i < size; i++)
            put(&host->work.next_observations[position.row * size + i], position, rows[size + i]);
        put(&batch.action[position.row], position, rows[2 * size]);
        put(&batch.reward[position.row], position, rows[2 * size + 1]);
        put(&batch.discount[position.row], position, gamma * (shape->mask_terminal ? 1 - rows[2 * size + 2] : 1));
    }
}

/* The inner picks, each at all places; the last one once more, so that there always is a next. */
static void read_picks(HostLearner *host, const int32_t *picks)
{
    const Shape *shape = &host->shape;
    const Batch from = host->work.batch, to = host->work.picks;
    const int seen = from.rows_each * observation_size(&host->network);
    const int b = shape->inner_batch, count = shape->inner_iterations * b;
    for (int p = 0; p < count + b; p++) {
        const Position position = position_of(host, picks[p < count ? p : p - b]);
        const int place = position.place < 0 ? 0 : position.place;
        for (int i = 0; i < seen; i++)
            to.observations[p * seen + i] = every(from.observations[position.row * seen + i][place]);
        to.action[p] = every(from.action[position.row][place]);
        to.reward[p] = every(from.reward[position.row][place]);
        to.discount[p] = every(from.discount[position.row][place]);
        to.y[p] = every(from.y[position.row][place]);
    }
}

static int learn_from(HostLearner *host, const float *rows, const int32_t *picks, float progress, int renewed,
                      float *diagnostics)
{
    const Shape *shape = &host->shape;
    Workspace *work = &host->work;
    const int size = host->network.size;
    read_batch(host, rows);
    if (host->scale.on)
        scale_batch(&host->scale, &host->network, work, shape->rows);
    copy_learner(&host->saved, &host->learner, size);
    if (shape->copied_by_steps)
        renew_target(&host->learner, work, size, renewed - (mask){0} != 0);
    freeze_batch(shape, &host->network, &host->learner, work);
    if (has_picks(shape))
        read_picks(host, picks);
    const Diagnostics d = outer_iteration(shape, &host->numbers, &host->network, host->saved.theta,
                                          &host->learner, work, every(progress));
    const float values[] = {d.loss[0], d.max_q[0], d.delta_norm[0], d.theta_norm[0]};
    memcpy(diagnostics, values, sizeof values);
    const int good = isfinite(values[2]) && isfinite(values[3]);
    if (!good)
        copy_learner(&host->learner, &host->saved, size);
    return good;
}

static int32_t best_action(HostLearner *host, const float *observation)
{
    const Network *network = &host->network;
    for (int i = 0; i < observation_size(network); i++)
        host->observation[i] = every(observation[i]);
    if (host->scale.on)
        scale_rows(&host->scale, host->observation, host->observation, 1, observation_size(network));
    host->acting.observations = host->observation;
    forward_one(network, host->learner.theta, &host->acting);
    return best(host->acting.q, action_count(network))[0];
}

#endif
