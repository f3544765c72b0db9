/* The paper's three tasks: the same formulas as in `srgdqn/tasks`, one state at a time. */

#ifndef TASKS_H
#define TASKS_H

#include <math.h>

#include "random.h"
#include "settings.h"

#define MOST_NUMBERS 4 /* in a state, or in an observation */
#define PI 3.14159265358979323846

INLINE float clipped(float value, float low, float high) { return value < low ? low : value > high ? high : value; }

INLINE int state_size(const Task *task) { return task->task == CART_POLE ? 4 : 2; }

static void begin(const Task *task, Key key, float *state)
{
    if (task->task == MOUNTAIN_CAR) {
        uniform(key, state, 1, -0.6f, -0.4f);
        state[1] = 0;
    } else if (task->task == PENDULUM) {
        uniform(key, state, 2, -1, 1);
        state[0] *= (float)PI;
    } else {
        uniform(key, state, 4, -0.05f, 0.05f);
    }
}

static void observe(const Task *task, const float *state, float *observation)
{
    if (task->task == PENDULUM) {
        observation[0] = cosf(state[0]);
        observation[1] = sinf(state[0]);
        observation[2] = state[1];
    } else {
        memcpy(observation, state, state_size(task) * sizeof *state);
    }
}

/* Moves the state, and gives the reward and whether the episode has terminated. */
typedef struct {
    float reward;
    int terminated;
} Outcome;

static Outcome drive(const Task *task, float *state, int action)
{
    float speed = state[1] + (action - 1) * 0.001f - 0.0025f * cosf(3 * state[0]);
    speed = clipped(speed, -0.07f, 0.07f);
    float position = clipped(state[0] + speed, -1.2f, 0.6f);
    if (position <= -1.2f && speed < 0)
        speed = 0;
    state[0] = position;
    state[1] = speed;
    float reward = -1;
    if (task->reward == HEIGHT)
        reward = 0.45f * sinf(3 * position) + 0.55f;
    else if (task->reward == DISTANCE)
        reward = fabsf(position + 0.5f);
    return (Outcome){reward, position >= 0.5f && speed >= 0};
}

INLINE float within_half_a_turn(float angle)
{
    const float turn = (float)(2 * PI);
    return angle - turn * floorf(angle / turn + 0.5f);
}

static Outcome swing(const Task *task, float *state, int action)
{
    float torque = task->first_torque + task->torque_spacing * action;
    float angle = within_half_a_turn(state[0]), speed = state[1];
    float cost = angle * angle + 0.1f * (speed * speed) + 0.001f * (torque * torque);
    float unclipped = speed + (15 * sinf(state[0]) + 3 * torque) * 0.05f;
    speed = clipped(unclipped, -8, 8);
    state[0] = within_half_a_turn(state[0] + (task->integrates_unclipped ? unclipped : speed) * 0.05f);
    state[1] = speed;
    return (Outcome){-cost, 0};
}

static Outcome balance(const Task *task, float *state, int action)
{
    const float mass = (float)1.1, moment = (float)(0.1 * 0.5), step = 0.02f;
    const float position_limit = 2.4f, angle_limit = (float)(12 * 2 * PI / 360);
    float cosine = cosf(state[2]), sine = sinf(state[2]);
    float push = ((2 * action - 1) * 10.0f + moment * (state[3] * state[3]) * sine) / mass;
    float angular = (9.8f * sine - cosine * push) / (0.5f * ((float)(4.0 / 3) - (float)(0.1 / 1.1) * (cosine * cosine)));
    float along = push - (float)(0.1 * 0.5 / 1.1) * angular * cosine;
    state[0] += step * state[1];
    state[2] += step * state[3];
    state[1] += step * along;
    state[3] += step * angular;
    float position = fabsf(state[0]), angle = fabsf(state[2]), reward = 1;
    if (task->reward == POSITION_AND_ANGLE)
        reward = (position_limit - position) / position_limit - 0.8f + ((angle_limit - angle) / angle_limit - 0.5f);
    else if (task->reward == UPRIGHT_COSINE)
        reward = cosf(state[2]);
    return (Outcome){reward, position > position_limit || angle > angle_limit};
}

static Outcome take_step(const Task *task, float *state, int action)
{
    if (task->task == MOUNTAIN_CAR)
        return drive(task, state, action);
    return task->task == PENDULUM ? swing(task, state, action) : balance(task, state, action);
}

#endif
