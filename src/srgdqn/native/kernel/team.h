/* Eight rounds side by side: what they do in one block. */

#ifndef TEAM_H
#define TEAM_H

#include "memory.h"
#include "tasks.h"

#define NUMBERS (int)(sizeof(Numbers) / sizeof(float))

enum { LIVED = 1, TERMINATED = 2, TRUNCATED = 4 };

typedef struct {
    const Shape *shape;
    const Limits *limits;
    const Lanes *lanes;
    const Log *log;
    Network network;
    Workshop shop;
    Learner learner, kept; /* as it is, and as it was before the outer iteration */
    TeamNumbers numbers;
    Activations acting;
    vector state[MOST_NUMBERS], observation[MOST_NUMBERS];
    uint32_t *words[TEAM]; /* the block's random words */
    const float **drawn[TEAM]; /* the rows of D in the ring */
    size_t word_count;
    int members, lane[TEAM]; /* places beyond the members are idle, and nothing comes of what is computed there */
    mask seated, active, episodes, episode_steps;
} Team;

static Team take_team(Arena *arena, const Shape *shape, const Limits *limits, const Lanes *lanes, const Log *log)
{
    Team team = {.shape = shape, .limits = limits, .lanes = lanes, .log = log, .network = make_network(shape)};
    const Network *network = &team.network;
    team.shop = take_workshop(arena, network, shape);
    team.learner = take_learner(arena, network);
    team.kept = take_learner(arena, network);
    team.acting = take_activations(arena, network, 1);
    team.word_count = 4 * (size_t)shape->block + shape->rows;
    if (has_picks(shape)) /* they come last, so that whoever needs none draws the same words before them */
        team.word_count += (size_t)shape->inner_iterations * shape->inner_batch;
    for (int i = 0; i < TEAM; i++) {
        team.words[i] = take(arena, team.word_count * sizeof(uint32_t));
        team.drawn[i] = take(arena, shape->rows * sizeof(float *));
    }
    return team;
}

INLINE int any(mask set)
{
    int32_t found = 0;
    UNROLL for (int i = 0; i < TEAM; i++) found |= set[i];
    return found;
}

/* What is spent of the budget, in its own unit, as a share. */
static vector progress(const Limits *limits, int64_t steps, mask outer_iterations, mask episodes)
{
    if (limits->unit == STEPS)
        return every((float)steps) / limits->amount;
    mask amount = limits->unit == OUTER_ITERATIONS ? outer_iterations : episodes;
    return __builtin_convertvector(amount, vector) / limits->amount;
}

static vector exploration(const TeamNumbers *n, vector progress)
{
    vector share = at_least(at_most(progress / n->epsilon_fraction, every(1)), every(0));
    return n->epsilon_start + share * (n->epsilon_end - n->epsilon_start);
}

/* One row of a member's ring: S, S', A, R, whether terminated. */
static void remember(const Team *team, int member, int64_t slot, const vector *before, const vector *after, int action,
                     float reward, int terminated)
{
    const int size = observation_size(&team->network);
    float *row = team->lanes->ring + ((size_t)team->lane[member] * team->shape->slots + slot) * (2 * size + 3);
    for (int i = 0; i < size; i++) {
        row[i] = before[i][member];
        row[size + i] = after[i][member];
    }
    row[2 * size] = (float)action;
    row[2 * size + 1] = reward * team->numbers.reward_scale[member];
    row[2 * size + 2] = (float)terminated;
}

/* What the actions of all lead to: transitions in the rings, rows in the log, the observations that follow. */
static void live(Team *team, mask action, int64_t slot, size_t row, size_t rows, int step)
{
    const Task *task = &team->shape->task;
    const int size = observation_size(&team->network), numbers = state_size(task), block = team->shape->block;
    vector moved[MOST_NUMBERS], seen[MOST_NUMBERS];
    copy(moved, team->state, numbers);
    const Outcome outcome = take_step(task, moved, action);
    observe(task, moved, seen);
    const mask steps = team->episode_steps + 1;
    const mask truncated = ~outcome.terminated & (steps >= team->limits->time_limit);
    const mask ended = outcome.terminated | truncated, active = team->active;
    for (int member = 0; member < team->members; member++) {
        if (!active[member])
            continue;
        const size_t entry = ((size_t)team->lane[member] * rows + row) * block + step;
        remember(team, member, slot, team->observation, seen, action[member], outcome.reward[member],
                 -outcome.terminated[member]);
        team->log->reward[entry] = outcome.reward[member];
        team->log->flags[entry] =
            (uint8_t)(LIVED - TERMINATED * outcome.terminated[member] - TRUNCATED * truncated[member]);
        if (ended[member]) {
            const uint32_t *key = team->words[member] + 2 * block + 2 * step;
            begin(task, (Key){key[0], key[1]}, moved, member);
            team->episodes[member]++;
        }
    }
    if (any(ended & active))
        observe(task, moved, seen);
    for (int i = 0; i < numbers; i++)
        team->state[i] = choose(active, moved[i], team->state[i]);
    for (int i = 0; i < size; i++)
        team->observation[i] = choose(active, seen[i], team->observation[i]);
    team->episode_steps = (active & ~ended & steps) | (~active & team->episode_steps);
}

/* One block of steps under the ε-greedy policy. */
static void act(Team *team, int32_t index, int32_t row, int32_t rows)
{
    const int block = team->shape->block, actions = action_count(&team->network);
    const int32_t learned = index > team->limits->first_learning ? index - team->limits->first_learning : 0;
    const int64_t steps = (int64_t)index * block, slot = steps % team->shape->slots;
    team->acting.observations = team->observation;
    for (int i = 0; i < block; i++) {
        const vector share = progress(team->limits, steps + i, learned - (mask){0}, team->episodes);
        const vector probability = exploration(&team->numbers, share);
        forward_one(&team->network, team->learner.theta, &team->acting);
        mask action = best(team->acting.q, actions);
        for (int member = 0; member < team->members; member++) {
            const uint32_t *words = team->words[member];
            if ((words[i] >> 8) * 0x1p-24f < probability[member])
                action[member] = (int32_t)(words[block + i] % (uint32_t)actions);
        }
        live(team, action, slot + i, row, rows, i);
    }
}

/* word % divisor for any number of words, without dividing (Lemire, Kaser and Kurz 2019). */
typedef struct {
    uint64_t inverse;
    uint32_t divisor;
} Divisor;

INLINE Divisor divisor(uint32_t by) { return (Divisor){UINT64_MAX / by + 1, by}; }

INLINE uint32_t remainder_of(uint32_t word, Divisor by)
{
    return (uint32_t)((unsigned __int128)(by.inverse * word) * by.divisor >> 64);
}

/* Chooses the rows of a member's D, and asks for them long before they are needed. */
static void choose_batch(Team *team, int member, int32_t index)
{
    const Shape *shape = team->shape;
    const int width = 2 * observation_size(&team->network) + 3;
    const float *ring = team->lanes->ring + (size_t)team->lane[member] * shape->slots * width;
    const int64_t written = ((int64_t)index + 1) * shape->block, newest = (written - 1) % shape->slots;
    const Divisor live = divisor((uint32_t)(written < shape->capacity ? written : shape->capacity));
    const uint32_t *words = team->words[member] + 4 * shape->block;
    for (int t = 0; t < shape->rows; t++) {
        int64_t slot = newest - (shape->newest ? (uint32_t)t : remainder_of(words[t], live));
        team->drawn[member][t] = ring + (size_t)(slot < 0 ? slot + shape->slots : slot) * width;
        __builtin_prefetch(team->drawn[member][t], 0, 2);
    }
}

/* A member's D, from its ring. */
static void draw_batch(Team *team, int member)
{
    const Shape *shape = team->shape;
    const Batch batch = team->shop.batch;
    const int size = observation_size(&team->network), seen = batch.rows_each * size;
    const float gamma = team->numbers.gamma[member];
    vector *next_observations = team->shop.next_observations;
    for (int t = 0; t < shape->rows; t++) {
        const float *row = team->drawn[member][t];
        for (int i = 0; i < seen; i++)
            batch.observations[t * seen + i][member] = row[i];
        for (int i = 0; seen == size && i < size; i++)
            next_observations[t * size + i][member] = row[size + i];
        batch.action[t][member] = row[2 * size];
        batch.reward[t][member] = row[2 * size + 1];
        batch.discount[t][member] = gamma * (shape->mask_terminal ? 1 - row[2 * size + 2] : 1);
    }
}

/* A member's inner picks, from its D; the last one once more, so that there always is a next. */
static void draw_picks(Team *team, int member)
{
    const Shape *shape = team->shape;
    const Batch from = team->shop.batch, to = team->shop.picks;
    const int seen = from.rows_each * observation_size(&team->network);
    const int b = shape->inner_batch, count = shape->inner_iterations * b;
    const uint32_t *words = team->words[member] + 4 * shape->block + shape->rows;
    const Divisor rows = divisor((uint32_t)shape->rows);
    for (int p = 0; p < count + b; p++) {
        const int t = (int)remainder_of(words[p < count ? p : p - b], rows);
        for (int i = 0; i < seen; i++)
            to.observations[p * seen + i][member] = from.observations[t * seen + i][member];
        to.action[p][member] = from.action[t][member];
        to.reward[p][member] = from.reward[t][member];
        to.discount[p][member] = from.discount[t][member];
        to.y[p][member] = from.y[t][member];
    }
}

INLINE int has_target_network(const Shape *shape)
{
    return shape->target == TARGET_HARD || shape->target == TARGET_POLYAK;
}

static void keep(Team *team)
{
    const int size = team->network.size;
    const Learner *now = &team->learner;
    Learner *kept = &team->kept;
    copy(kept->theta, now->theta, size);
    copy(kept->moments.first, now->moments.first, size);
    copy(kept->moments.second, now->moments.second, size);
    if (has_target_network(team->shape))
        copy(kept->target, now->target, size);
    kept->moments.updates = now->moments.updates;
    kept->iterations = now->iterations;
}

/* Undoes the outer iteration of members outside the mask. */
static void undo(Team *team, mask good)
{
    Learner *now = &team->learner;
    const Learner *kept = &team->kept;
    vector *changed[] = {now->theta, now->moments.first, now->moments.second, now->target};
    const vector *before[] = {kept->theta, kept->moments.first, kept->moments.second, kept->target};
    for (int array = 0; array < 4; array++)
        for (int i = 0; i < team->network.size; i++)
            changed[array][i] = choose(good, changed[array][i], before[array][i]);
    now->moments.updates = (good & now->moments.updates) | (~good & kept->moments.updates);
    now->iterations = (good & now->iterations) | (~good & kept->iterations);
}

INLINE mask is_finite(vector v) { return v - v == 0; }

/* One outer iteration of every active member. */
static void learn(Team *team, int32_t index, int32_t entry, int32_t entries)
{
    const Shape *shape = team->shape;
    Workshop *shop = &team->shop;
    const mask active = team->active;
    const int64_t steps = ((int64_t)index + 1) * shape->block;
    for (int member = 0; member < team->members; member++)
        draw_batch(team, member);
    if (shape->target != TARGET_CURRENT)
        freeze_targets(&team->network, has_target_network(shape) ? team->learner.target : team->learner.theta,
                       shop->next_observations, &shop->batch, shape->rows, &shop->targets);
    if (has_picks(shape))
        for (int member = 0; member < team->members; member++)
            draw_picks(team, member);
    keep(team);
    vector share = progress(team->limits, steps, team->learner.iterations, team->episodes);
    Diagnostics d = outer_iteration(shape, &team->numbers, &team->network, team->kept.theta, &team->learner, shop, share);
    const mask good = active & is_finite(d.delta_norm) & is_finite(d.theta_norm);
    if (any(team->seated & ~good))
        undo(team, good);
    for (int member = 0; member < team->members; member++) {
        const size_t at = (size_t)team->lane[member] * entries + entry;
        if (!active[member])
            continue;
        team->log->loss[at] = d.loss[member];
        team->log->max_q[at] = d.max_q[member];
        team->log->delta_norm[at] = d.delta_norm[member];
        team->log->theta_norm[at] = d.theta_norm[member];
        if (!good[member])
            team->lanes->diverged_at[team->lane[member]] = (int32_t)steps;
    }
    team->active &= good;
}

/* Takes up to eight rounds from the arrays of all lanes. */
static void assemble(Team *team, const float *numbers, const int32_t *lanes, int count)
{
    const Lanes *from = team->lanes;
    const int size = observation_size(&team->network), numbers_in_state = state_size(&team->shape->task);
    team->members = count < TEAM ? count : TEAM;
    team->seated = (mask){0};
    vector *each = (vector *)&team->numbers;
    for (int place = 0; place < TEAM; place++) /* idle places too: whatever is divided by must not be 0 */
        for (int i = 0; i < NUMBERS; i++)
            each[i][place] = numbers[lanes[place < team->members ? place : 0] * NUMBERS + i];
    for (int member = 0; member < team->members; member++) {
        const int lane = team->lane[member] = lanes[member];
        move_parameters(&team->network, &from->parameters, lane, team->learner.theta, member, 1);
        move_parameters(&team->network, &from->first_moment, lane, team->learner.moments.first, member, 1);
        move_parameters(&team->network, &from->second_moment, lane, team->learner.moments.second, member, 1);
        if (has_target_network(team->shape))
            move_parameters(&team->network, &from->target, lane, team->learner.target, member, 1);
        team->learner.moments.updates[member] = from->updates[lane];
        team->learner.iterations[member] = from->iterations[lane];
        team->episodes[member] = from->episodes[lane];
        team->seated[member] = -1;
        team->episode_steps[member] = from->episode_steps[lane];
        for (int i = 0; i < numbers_in_state; i++)
            team->state[i][member] = from->state[(size_t)lane * numbers_in_state + i];
        for (int i = 0; i < size; i++)
            team->observation[i][member] = from->observation[(size_t)lane * size + i];
    }
    team->active = team->seated;
}

/* Puts them back. */
static void dismiss(Team *team)
{
    const Lanes *to = team->lanes;
    const int size = observation_size(&team->network), numbers_in_state = state_size(&team->shape->task);
    for (int member = 0; member < team->members; member++) {
        const int lane = team->lane[member];
        to->episode_steps[lane] = team->episode_steps[member];
        for (int i = 0; i < numbers_in_state; i++)
            to->state[(size_t)lane * numbers_in_state + i] = team->state[i][member];
        for (int i = 0; i < size; i++)
            to->observation[(size_t)lane * size + i] = team->observation[i][member];
        move_parameters(&team->network, &to->parameters, lane, team->learner.theta, member, 0);
        move_parameters(&team->network, &to->first_moment, lane, team->learner.moments.first, member, 0);
        move_parameters(&team->network, &to->second_moment, lane, team->learner.moments.second, member, 0);
        if (has_target_network(team->shape))
            move_parameters(&team->network, &to->target, lane, team->learner.target, member, 0);
        to->updates[lane] = team->learner.moments.updates[member];
        to->iterations[lane] = team->learner.iterations[member];
        to->episodes[lane] = team->episodes[member];
        to->active[lane] = team->active[member] != 0;
    }
}

#endif
