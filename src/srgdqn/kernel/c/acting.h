/* One block of steps under the ε-greedy policy. */

#ifndef ACTING_H
#define ACTING_H

#include "team.h"

enum { STEPPED = 1, TERMINATED = 2, TRUNCATED = 4 };

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

/* One step of every member: transitions into the rings, rows into the log, the observations that follow. */
static void take_steps(Team *team, mask action, int64_t slot, size_t row, size_t rows, int step)
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
            (uint8_t)(STEPPED - TERMINATED * outcome.terminated[member] - TRUNCATED * truncated[member]);
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

static void act(Team *team, int32_t index, int32_t row, int32_t rows)
{
    const int block = team->shape->block, actions = action_count(&team->network);
    const int32_t learned = index > team->limits->first_learning ? index - team->limits->first_learning : 0;
    const int32_t iterations = learned * team->shape->gradient_steps;
    const int64_t steps = (int64_t)index * block, slot = steps % team->shape->slots;
    const int uniform = team->shape->uniform_start && index <= team->limits->first_learning;
    vector scaled[MOST_NUMBERS];
    team->acting.observations = team->scale.on ? scaled : team->observation;
    for (int i = 0; i < block; i++) {
        if (team->scale.on)
            scale_rows(&team->scale, team->observation, scaled, 1, observation_size(&team->network));
        const vector share = progress(team->limits, steps + i, iterations - (mask){0}, team->episodes);
        const vector probability = uniform ? every(1) : exploration(&team->numbers, share);
        forward_one(&team->network, team->learner.theta, &team->acting);
        mask action = best(team->acting.q, actions);
        for (int member = 0; member < team->members; member++) {
            const uint32_t *words = team->words[member];
            if ((words[i] >> 8) * 0x1p-24f < probability[member])
                action[member] = (int32_t)(words[block + i] % (uint32_t)actions);
        }
        take_steps(team, action, slot + i, row, rows, i);
    }
}

#endif
