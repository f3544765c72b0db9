/* Eight rounds side by side: their state, copied from the arrays of all lanes and back. */

#ifndef TEAM_H
#define TEAM_H

#include "memory.h"
#include "tasks.h"

#define NUMBERS (int)(sizeof(Numbers) / sizeof(float))

typedef struct {
    const Shape *shape;
    const Limits *limits;
    const Lanes *lanes;
    const Log *log;
    Network network;
    Workspace work;
    Learner learner, saved; /* now, and before the outer iteration */
    TeamNumbers numbers;
    Activations acting;
    Scale scale;
    vector state[MOST_NUMBERS], observation[MOST_NUMBERS];
    Key key[TEAM];         /* of the block */
    uint32_t *words[TEAM]; /* for its steps, and for its D and picks, those of one outer iteration */
    const float **drawn[TEAM]; /* the rows of D in the ring */
    int members, lane[TEAM]; /* places beyond the members are idle, and nothing comes of what is computed there */
    mask occupied, active, episodes, episode_steps;
} Team;

/* The words that a block's steps use, which come first. */
INLINE size_t step_words(const Shape *shape) { return 4 * (size_t)shape->block; }

/* The transitions picked from D in an outer iteration. */
INLINE size_t picked(const Shape *shape)
{
    return has_picks(shape) ? (size_t)shape->inner_iterations * shape->inner_batch : 0;
}

static Team take_team(Arena *arena, const Shape *shape, const Limits *limits, const Lanes *lanes, const Log *log)
{
    Team team = {.shape = shape, .limits = limits, .lanes = lanes, .log = log, .network = make_network(shape)};
    const Network *network = &team.network;
    team.work = take_workspace(arena, network, shape);
    team.work.keeps_gradient |= log->first_gradient != NULL;
    team.learner = take_learner(arena, network, shape);
    team.saved = take_learner(arena, network, shape);
    team.acting = take_activations(arena, network, 1);
    team.scale = take_scale(arena, network);
    const size_t words = step_words(shape) + shape->rows + picked(shape);
    for (int i = 0; i < TEAM; i++) {
        team.words[i] = take(arena, words * sizeof(uint32_t));
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

/* Takes up to eight rounds from the arrays of all lanes. */
static void assemble(Team *team, const float *numbers, const int32_t *lanes, int count)
{
    const Lanes *from = team->lanes;
    const int size = observation_size(&team->network), numbers_in_state = state_size(&team->shape->task);
    team->members = count < TEAM ? count : TEAM;
    team->occupied = (mask){0};
    vector *each = (vector *)&team->numbers;
    for (int place = 0; place < TEAM; place++) { /* idle places too: whatever is divided by must not be 0 */
        const int lane = lanes[place < team->members ? place : 0];
        for (int i = 0; i < NUMBERS; i++)
            each[i][place] = numbers[lane * NUMBERS + i];
        read_scale(&team->scale, from->mean, from->deviation, lane, size, place);
    }
    for (int member = 0; member < team->members; member++) {
        const int lane = team->lane[member] = lanes[member];
        move_learner(&team->network, from->learner, lane, &team->learner, member, 1);
        team->learner.moments.updates[member] = from->updates[lane];
        team->learner.iterations[member] = from->iterations[lane];
        team->episodes[member] = from->episodes[lane];
        team->occupied[member] = -1;
        team->episode_steps[member] = from->episode_steps[lane];
        for (int i = 0; i < numbers_in_state; i++)
            team->state[i][member] = from->state[(size_t)lane * numbers_in_state + i];
        for (int i = 0; i < size; i++)
            team->observation[i][member] = from->observation[(size_t)lane * size + i];
    }
    team->active = team->occupied;
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
        move_learner(&team->network, to->learner, lane, &team->learner, member, 0);
        to->updates[lane] = team->learner.moments.updates[member];
        to->iterations[lane] = team->learner.iterations[member];
        to->episodes[lane] = team->episodes[member];
        to->active[lane] = team->active[member] != 0;
    }
}

#endif
