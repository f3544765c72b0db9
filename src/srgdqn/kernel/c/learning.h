/* The outer iterations at the end of a block; undone for members whose numbers are no longer finite. */

#ifndef LEARNING_H
#define LEARNING_H

#include "drawing.h"

/* Undoes the outer iteration of members outside the mask. */
static void undo(Team *team, mask good)
{
    Learner *now = &team->learner;
    const Learner *saved = &team->saved;
    const LearnerArrays changed = arrays_of(now), before = arrays_of(saved);
    for (int array = 0; array < LEARNER_TREES; array++)
        for (int i = 0; changed.at[array] && i < team->network.size; i++)
            changed.at[array][i] = choose(good, changed.at[array][i], before.at[array][i]);
    now->moments.updates = (good & now->moments.updates) | (~good & saved->moments.updates);
    now->iterations = (good & now->iterations) | (~good & saved->iterations);
}

/* Copies the first layer of a member's vector, which comes first: weights, then biases. */
static void log_first_layer(const Network *network, const vector *values, int member, float *log, size_t at)
{
    const Layer *layer = &network->layers[0];
    const int size = layer->biases + layer->outputs;
    for (int i = 0; i < size; i++)
        log[at * size + i] = values[i][member];
}

INLINE mask is_finite(vector v) { return v - v == 0; }

/* Whether the steps of a block, counted from 1, have a multiple of `target_update_interval` among them. */
INLINE mask is_multiple_passed(const Team *team, int32_t index)
{
    const int64_t before = (int64_t)index * team->shape->block, after = before + team->shape->block;
    mask passed = {0};
    for (int member = 0; member < team->members; member++) {
        const int64_t every = (int64_t)team->numbers.target_update_interval[member];
        passed[member] = -(after / every > before / every);
    }
    return passed;
}

/* One outer iteration of every active member, whose D has been chosen; and the choice of the next, if there is one. */
APART void learn_once(Team *team, int32_t index, int update, int32_t entry, int32_t entries)
{
    const Shape *shape = team->shape;
    Workspace *work = &team->work;
    const mask active = team->active;
    const int64_t steps = ((int64_t)index + 1) * shape->block;
    for (int member = 0; member < team->members; member++)
        draw_batch(team, member);
    if (team->scale.on)
        scale_batch(&team->scale, &team->network, work, shape->rows);
    copy_learner(&team->saved, &team->learner, team->network.size);
    if (shape->copied_by_steps)
        renew_target(&team->learner, work, team->network.size, update == 0 ? is_multiple_passed(team, index) : (mask){0});
    freeze_batch(shape, &team->network, &team->learner, work);
    if (has_picks(shape))
        for (int member = 0; member < team->members; member++)
            draw_picks(team, member);
    for (int member = 0; update + 1 < shape->gradient_steps && member < team->members; member++) {
        draw_words(team, member, update + 1);
        choose_batch(team, member, index);
    }
    vector share = progress(team->limits, steps, team->learner.iterations, team->episodes);
    Diagnostics d = outer_iteration(shape, &team->numbers, &team->network, team->saved.theta, &team->learner, work, share);
    const mask good = active & is_finite(d.delta_norm) & is_finite(d.theta_norm);
    if (any(team->occupied & ~good))
        undo(team, good);
    for (int member = 0; member < team->members; member++) {
        const size_t at = (size_t)team->lane[member] * entries + entry;
        if (!active[member])
            continue;
        team->log->loss[at] = d.loss[member];
        team->log->max_q[at] = d.max_q[member];
        team->log->delta_norm[at] = d.delta_norm[member];
        team->log->theta_norm[at] = d.theta_norm[member];
        if (team->log->first_delta)
            log_first_layer(&team->network, work->delta, member, team->log->first_delta, at);
        if (team->log->first_gradient)
            log_first_layer(&team->network, work->gradient, member, team->log->first_gradient, at);
        if (!good[member])
            team->lanes->diverged_at[team->lane[member]] = (int32_t)steps;
    }
    team->active &= good;
}

/* The outer iterations after a block. A member that one of them takes out of numbers makes no other. */
static void learn(Team *team, int32_t index, int32_t entry, int32_t entries)
{
    for (int update = 0; update < team->shape->gradient_steps && any(team->active); update++)
        learn_once(team, index, update, entry, entries);
}

#endif
