/* One outer iteration: the paper's Algorithm 1 and its companions. */

#ifndef LEARNER_H
#define LEARNER_H

#include <string.h>

#include "gradients.h"
#include "optimiser.h"

/* What survives an outer iteration. */
typedef struct {
    vector *theta, *target;
    vector *theta_before, *delta_before; /* θ and Δ of the batch before, which STORM remembers */
    Moments moments;
    mask iterations;
} Learner;

/* All its arrays, in the order of its trees; NULL for those that the configuration does not use. */
typedef struct {
    vector *at[LEARNER_TREES];
} LearnerArrays;

INLINE LearnerArrays arrays_of(const Learner *learner)
{
    return (LearnerArrays){{learner->theta, learner->moments.first, learner->moments.second, learner->target,
                            learner->theta_before, learner->delta_before}};
}

/* Arrays that an outer iteration computes in; the next one reuses them. */
typedef struct {
    Batch batch, picks; /* D, and x_1 … x_M with x_M once more */
    Factors on_batch, on_picks[2], on_every_pick;
    Activations targets;
    vector *next_observations;
    vector *anchor, *delta, *gradient, *reference, *previous_theta;
    int keeps_gradient; /* whether g_M is left in `gradient` */
    mask renewed;       /* whether a hard target was copied just before, if environment steps say when */
} Workspace;

typedef struct {
    vector loss, max_q, delta_norm, theta_norm;
} Diagnostics;

/* One inner iteration's update: Δ = g - c (g_ref - A), or Δ = g where there is no reference; then θ -= ηΔ. */
typedef struct {
    const vector *anchor;
    vector coefficient, eta;
    vector *delta, *theta;
} Update;

INLINE void apply(const Update u, int at, vector g, vector g_ref, const int has_reference)
{
    vector delta = has_reference ? g - u.coefficient * (g_ref - u.anchor[at]) : g;
    u.delta[at] = delta;
    u.theta[at] -= u.eta * delta;
}

/* From the gradients' factors, where a pick is a single transition: multiplied out here, they never see memory. */
INLINE void update_from_factors(const Network *network, const Update u, Pick present, Pick reference,
                                const int has_reference)
{
    for (int l = 0; l < network->depth; l++) {
        const Layer layer = network->layers[l];
        const vector *inputs = pick_inputs(present, l, &layer), *deltas = pick_deltas(present, l, &layer);
        const vector *old_inputs = pick_inputs(reference, l, &layer), *old_deltas = pick_deltas(reference, l, &layer);
        for (int i = 0, at = layer.weights; i < layer.inputs; i++) {
            const vector x = inputs[i], old = old_inputs[i];
            for (int o = 0; o < layer.outputs; o++, at++)
                apply(u, at, x * deltas[o], old * old_deltas[o], has_reference);
        }
        for (int o = 0; o < layer.outputs; o++)
            apply(u, layer.biases + o, deltas[o], old_deltas[o], has_reference);
    }
}

static void update_from_gradients(const Network *network, const Update u, const vector *g, const vector *g_ref,
                                  int has_reference)
{
    for (int i = 0; i < network->size; i++)
        apply(u, i, g[i], g_ref[i], has_reference);
}

static void step(const Shape *shape, const TeamNumbers *numbers, const Network *network, Learner *learner,
                 const vector *direction, vector eta, vector alpha)
{
    vector factor = clipping(shape, numbers, direction, network->size);
    if (shape->adam_steps)
        adam(shape, numbers, &learner->moments, direction, factor, alpha, learner->theta, network->size);
    else
        descend(learner->theta, eta * factor, direction, network->size);
}

static void copy(vector *to, const vector *from, size_t count) { memcpy(to, from, count * sizeof *to); }

/* One round's arrays: from those of all lanes to a place in the team, and back. */
static void move_learner(const Network *network, const Tree *trees, int lane, const Learner *learner, int place,
                         int into_team)
{
    const LearnerArrays arrays = arrays_of(learner);
    for (int array = 0; array < LEARNER_TREES; array++)
        if (arrays.at[array])
            move_parameters(network, &trees[array], lane, arrays.at[array], place, into_team);
}

INLINE int has_target_network(const Shape *shape)
{
    return shape->target == TARGET_HARD || shape->target == TARGET_POLYAK;
}

/* The targets y of D, where they stand still. */
static void freeze_batch(const Shape *shape, const Network *network, const Learner *learner, Workspace *work)
{
    const vector *theta = has_target_network(shape) ? learner->target : learner->theta;
    if (shape->target != TARGET_CURRENT)
        freeze_targets(network, theta, shape->double_q ? learner->theta : NULL, work->next_observations, &work->batch,
                       shape->rows, &work->targets);
}

static void copy_learner(Learner *to, const Learner *from, int size)
{
    const LearnerArrays written = arrays_of(to), read = arrays_of(from);
    for (int array = 0; array < LEARNER_TREES; array++)
        if (read.at[array])
            copy(written.at[array], read.at[array], size);
    to->moments.updates = from->moments.updates;
    to->iterations = from->iterations;
}

/* Whether a hard target network is that of this iteration's parameters. */
INLINE mask is_synchronised(const TeamNumbers *numbers, const Learner *learner)
{
    return learner->iterations % __builtin_convertvector(numbers->target_period, mask) == 0;
}

/* Copies θ to a hard target network where that is due before an outer iteration. */
static void renew_target(Learner *learner, Workspace *work, int size, mask due)
{
    work->renewed = due;
    for (int i = 0; i < size; i++)
        learner->target[i] = choose(due, learner->theta[i], learner->target[i]);
}

/* Whether there is one direction for all of D, with a memory of the batch before. */
INLINE int is_per_batch(const Shape *shape) { return shape->estimator == STORM; }

/* Whether θ_{m-1} is where reference gradients are asked for. */
INLINE int is_recursive(const Shape *shape) { return shape->estimator == SRG || shape->estimator == STORM_INNER; }

INLINE int has_inner_iterations(const Shape *shape)
{
    return shape->estimator != NONE && !is_per_batch(shape) && shape->inner_iterations > 0;
}

/* Whether inner iterations look at picks from D, not at all of D. */
INLINE int has_picks(const Shape *shape) { return has_inner_iterations(shape) && shape->estimator != FULL; }

/* Whether Δ_0, the gradient on D at θ_0, has any use. */
INLINE int uses_anchor(const Shape *shape)
{
    return shape->anchor_step || !has_inner_iterations(shape) || shape->estimator == SVRG || is_recursive(shape);
}

/* Δ_m and the step along it from the factors of `present` and, unless it is NULL, of `reference`. */
APART void update(const Network *network, Workspace *work, Update u, Pick present, Pick reference, int b)
{
    if (b == 1 && reference.factors) {
        update_from_factors(network, u, present, reference, 1);
    } else if (b == 1) {
        update_from_factors(network, u, present, present, 0);
    } else {
        add_up(network, present, b, work->gradient, 1);
        if (reference.factors)
            add_up(network, reference, b, work->reference, 1);
        update_from_gradients(network, u, work->gradient, work->reference, reference.factors != NULL);
    }
}

/* Lines 7 to 15: M steps along the estimator's directions. Leaves Δ_M and, where it is kept, g_M in the workspace. */
static void inner_iterations(const Shape *shape, const TeamNumbers *numbers, const Network *network,
                             const vector *theta_0, Learner *learner, Workspace *work, const Loss *loss, vector eta,
                             vector alpha)
{
    const int b = shape->inner_batch, steps = shape->inner_iterations, estimator = shape->estimator;
    const int recursive = is_recursive(shape);
    const int fused = !shape->adam_steps && !shape->clips && estimator != FULL, size = network->size;
    const float scale = 1.0f / b;
    Factors *now = &work->on_picks[0], *before = &work->on_picks[1];
    Seen unused = {{0}, {0}};
    const Update u = {
        .anchor = estimator == SVRG ? work->anchor : work->delta,
        .coefficient = estimator == STORM_INNER ? 1 - numbers->a : numbers->coefficient,
        .eta = fused ? eta : every(0),
        .delta = work->delta,
        .theta = learner->theta,
    };
    if (estimator == SVRG)
        query(network, loss, theta_0, &work->picks, 0, steps * b, scale, &work->on_every_pick, &unused);
    else if (recursive)
        query(network, loss, theta_0, &work->picks, 0, b, scale, before, &unused);
    for (int m = 0; m < steps; m++) {
        if (shape->adam_from_previous && m == steps - 1)
            copy(work->previous_theta, learner->theta, size);
        if (estimator == FULL) {
            mean_gradient(network, loss, learner->theta, &work->batch, shape->rows, &work->on_batch, work->delta);
        } else {
            /* The recursion asks for the next pick too: it is the next iteration's reference. */
            const int asked = recursive ? 2 * b : b;
            query(network, loss, learner->theta, &work->picks, m * b, asked, scale, now, &unused);
            Pick reference = {NULL, 0};
            if (estimator == SVRG)
                reference = (Pick){&work->on_every_pick, m * b};
            else if (recursive)
                reference = (Pick){before, m == 0 ? 0 : b};
            update(network, work, u, (Pick){now, 0}, reference, b);
        }
        if (!fused)
            step(shape, numbers, network, learner, work->delta, eta, alpha);
        Factors *swapped = before;
        before = now;
        now = swapped;
    }
    if (work->keeps_gradient && estimator == FULL)
        copy(work->gradient, work->delta, size);
    else if (work->keeps_gradient)
        add_up(network, (Pick){before, 0}, b, work->gradient, 1);
}

/* STORM, from batch to batch: Δ = g(θ; D) - (1 - a) (g(θ_before; D) - Δ_before). In the first outer iteration and, with
 * `reset`, where a hard target is new, Δ = g(θ; D). Leaves Δ and, where it is kept, g in the workspace. */
static Seen storm(const Shape *shape, const TeamNumbers *numbers, const Network *network, const vector *theta_0,
                  Learner *learner, Workspace *work, const Loss *loss)
{
    const int size = network->size;
    mask anew = learner->iterations == 0;
    if (shape->target == TARGET_HARD)
        anew |= (shape->copied_by_steps ? work->renewed : is_synchronised(numbers, learner)) & (numbers->reset > 0.5f);
    const Seen seen =
        mean_gradient(network, loss, theta_0, &work->batch, shape->rows, &work->on_batch, work->delta);
    mean_gradient(network, loss, learner->theta_before, &work->batch, shape->rows, &work->on_batch, work->reference);
    if (work->keeps_gradient)
        copy(work->gradient, work->delta, size);
    for (int i = 0; i < size; i++) {
        const vector g = work->delta[i], correction = work->reference[i] - learner->delta_before[i];
        work->delta[i] = learner->delta_before[i] = choose(anew, g, g - (1 - numbers->a) * correction);
    }
    copy(learner->theta_before, theta_0, size);
    return seen;
}

/* Line 5: Δ_0 and, where they are kept, copies of it; only what is seen on D where nobody uses Δ_0. */
static Seen anchor(const Shape *shape, const Network *network, const vector *theta_0, Workspace *work, const Loss *loss)
{
    if (!uses_anchor(shape))
        return look_at(network, loss, theta_0, &work->batch, shape->rows, &work->on_batch);
    const Seen seen =
        mean_gradient(network, loss, theta_0, &work->batch, shape->rows, &work->on_batch, work->delta);
    if (shape->estimator == SVRG)
        copy(work->anchor, work->delta, network->size);
    if (work->keeps_gradient) /* without inner iterations there is no g_M: Δ_0 takes its place */
        copy(work->gradient, work->delta, network->size);
    return seen;
}

/* Lines 3 to 21 on the batch and the picks that lie in the workspace. */
static Diagnostics outer_iteration(const Shape *shape, const TeamNumbers *numbers, const Network *network,
                                   const vector *theta_0, Learner *learner, Workspace *work, vector progress)
{
    const int size = network->size;
    const vector factor = schedule(shape, numbers, progress);
    const vector eta = factor * (float)shape->matched_steps * numbers->eta, alpha = factor * numbers->alpha;
    const Loss loss = {shape->huber, numbers->huber_delta};

    const Seen seen = is_per_batch(shape) ? storm(shape, numbers, network, theta_0, learner, work, &loss)
                                          : anchor(shape, network, theta_0, work, &loss);
    if (shape->adam_from_previous)
        copy(work->previous_theta, theta_0, size);
    if (shape->anchor_step || is_per_batch(shape))
        step(shape, numbers, network, learner, work->delta, eta, alpha); /* line 6 */
    if (has_inner_iterations(shape))
        inner_iterations(shape, numbers, network, theta_0, learner, work, &loss, eta, alpha);
    if (shape->adam_process) { /* lines 16 to 21 */
        const vector *entering = shape->adam_takes_gradient ? work->gradient : work->delta;
        if (shape->adam_from_previous)
            copy(learner->theta, work->previous_theta, size);
        adam(shape, numbers, &learner->moments, entering, clipping(shape, numbers, entering, size), alpha,
             learner->theta, size);
    }
    learner->iterations += 1;
    if (shape->target == TARGET_POLYAK)
        for (int i = 0; i < size; i++)
            learner->target[i] = numbers->target_tau * learner->theta[i] + (1 - numbers->target_tau) * learner->target[i];
    if (shape->target == TARGET_HARD && !shape->copied_by_steps) {
        const mask due = is_synchronised(numbers, learner);
        for (int i = 0; i < size; i++)
            learner->target[i] = choose(due, learner->theta[i], learner->target[i]);
    }
    return (Diagnostics){seen.loss / (float)shape->rows, seen.max_q / (float)shape->rows, norm(work->delta, size),
                         norm(learner->theta, size)};
}

#endif
