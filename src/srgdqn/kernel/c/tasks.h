/* The compiled tasks: the same formulas as in `srgdqn/tasks`, for eight rounds at once. */

#ifndef TASKS_H
#define TASKS_H

#include "random.h"
#include "settings.h"
#include "vectors.h"

#define MOST_NUMBERS 6 /* in a state, or in an observation */
#define PI 3.14159265358979323846

INLINE vector clipped(vector v, float low, float high) { return at_least(at_most(v, every(high)), every(low)); }

INLINE vector absolute(vector v) { return (vector)((mask)v & 0x7FFFFFFF); }

INLINE vector floored(vector v)
{
    vector whole = __builtin_convertvector(__builtin_convertvector(v, mask), vector);
    return whole - where(whole > v, every(1));
}

typedef struct {
    vector sine, cosine;
} Angle;

/* Both to about 1e-7 for angles of up to thousands: what is left after whole quarter turns, which are taken off in three
 * parts so that nothing is rounded away, enters the polynomials of the Cephes library (Moshier 1992). */
INLINE Angle angle_of(vector x)
{
    const vector quarters = floored(x * (float)(2 / PI) + 0.5f);
    const mask quarter = __builtin_convertvector(quarters, mask);
    const vector r = x - quarters * 1.5703125f - quarters * 4.837512969970703125e-4f - quarters * 7.549789954891882e-8f;
    const vector s = r * r;
    const vector sine = r + r * s * (-1.6666654611e-1f + s * (8.3321608736e-3f + s * -1.9515295891e-4f));
    const vector cosine =
        1 - 0.5f * s + s * s * (4.166664568298827e-2f + s * (-1.388731625493765e-3f + s * 2.443315711809948e-5f));
    const mask swapped = (quarter & 1) != 0;
    /* A sign is the first bit of a float: that of the sine changes with every half turn, the cosine's a quarter ahead. */
    const mask sine_sign = quarter << 30 & (int32_t)0x80000000, cosine_sign = (quarter + 1) << 30 & (int32_t)0x80000000;
    return (Angle){(vector)((mask)choose(swapped, cosine, sine) ^ sine_sign),
                   (vector)((mask)choose(swapped, sine, cosine) ^ cosine_sign)};
}

INLINE int state_size(const Task *task) { return task->task == CART_POLE || task->task == ACROBOT ? 4 : 2; }

/* A fresh episode of one round. */
static void begin(const Task *task, Key key, vector *state, int member)
{
    const int count = task->task == MOUNTAIN_CAR ? 1 : state_size(task);
    const float lows[] = {-0.6f, -1, -0.05f, -0.1f}, highs[] = {-0.4f, 1, 0.05f, 0.1f};
    float drawn[MOST_NUMBERS] = {0};
    uniform(key, drawn, count, lows[task->task], highs[task->task]);
    if (task->task == PENDULUM)
        drawn[0] *= (float)PI;
    for (int i = 0; i < state_size(task); i++)
        state[i][member] = drawn[i];
}

INLINE void observe(const Task *task, const vector *state, vector *observation)
{
    if (task->task == PENDULUM) {
        const Angle angle = angle_of(state[0]);
        observation[0] = angle.cosine;
        observation[1] = angle.sine;
        observation[2] = state[1];
    } else if (task->task == ACROBOT) {
        for (int link = 0; link < 2; link++) {
            const Angle angle = angle_of(state[link]);
            observation[2 * link] = angle.cosine;
            observation[2 * link + 1] = angle.sine;
            observation[4 + link] = state[2 + link];
        }
    } else {
        for (int i = 0; i < state_size(task); i++)
            observation[i] = state[i];
    }
}

typedef struct {
    vector reward;
    mask terminated;
} Outcome;

INLINE Outcome drive(const Task *task, vector *state, vector action)
{
    vector speed = state[1] + (action - 1) * 0.001f - 0.0025f * angle_of(3 * state[0]).cosine;
    speed = clipped(speed, -0.07f, 0.07f);
    const vector position = clipped(state[0] + speed, -1.2f, 0.6f);
    speed = choose(position <= -1.2f, at_least(speed, every(0)), speed);
    state[0] = position;
    state[1] = speed;
    vector reward = every(-1);
    if (task->reward == HEIGHT)
        reward = 0.45f * angle_of(3 * position).sine + 0.55f;
    else if (task->reward == DISTANCE)
        reward = absolute(position + 0.5f);
    return (Outcome){reward, (position >= 0.5f) & (speed >= 0)};
}

INLINE vector within_half_a_turn(vector angle)
{
    const float turn = (float)(2 * PI);
    return angle - turn * floored(angle / turn + 0.5f);
}

INLINE Outcome swing(const Task *task, vector *state, vector action)
{
    const vector torque = task->first_torque + task->torque_spacing * action, speed = state[1];
    const vector angle = within_half_a_turn(state[0]);
    const vector cost = angle * angle + 0.1f * (speed * speed) + 0.001f * (torque * torque);
    const vector unclipped = speed + (15 * angle_of(state[0]).sine + 3 * torque) * 0.05f;
    state[1] = clipped(unclipped, -8, 8);
    state[0] = within_half_a_turn(state[0] + (task->integrates_unclipped ? unclipped : state[1]) * 0.05f);
    return (Outcome){-cost, (mask){0}};
}

INLINE Outcome balance(const Task *task, vector *state, vector action)
{
    const float mass = (float)1.1, moment = (float)(0.1 * 0.5), step = 0.02f;
    const float position_limit = 2.4f, angle_limit = (float)(12 * 2 * PI / 360);
    const Angle before = angle_of(state[2]);
    const vector push = ((2 * action - 1) * 10 + moment * (state[3] * state[3]) * before.sine) / mass;
    const vector angular =
        (9.8f * before.sine - before.cosine * push) /
        (0.5f * ((float)(4.0 / 3) - (float)(0.1 / 1.1) * (before.cosine * before.cosine)));
    const vector along = push - (float)(0.1 * 0.5 / 1.1) * angular * before.cosine;
    state[0] += step * state[1];
    state[2] += step * state[3];
    state[1] += step * along;
    state[3] += step * angular;
    const vector position = absolute(state[0]), angle = absolute(state[2]);
    vector reward = every(1);
    if (task->reward == POSITION_AND_ANGLE)
        reward = (position_limit - position) / position_limit - 0.8f + ((angle_limit - angle) / angle_limit - 0.5f);
    else if (task->reward == UPRIGHT_COSINE)
        reward = angle_of(state[2]).cosine;
    return (Outcome){reward, (position > position_limit) | (angle > angle_limit)};
}

/* How fast the numbers of Acrobot's state change. */
INLINE void acrobot_rates(const vector *state, vector torque, vector *rates)
{
    const Angle bend = angle_of(state[1]);
    const vector d_1 = 3.5f + bend.cosine, d_2 = 1.25f + 0.5f * bend.cosine;
    const vector phi_2 = 4.9f * angle_of(state[0] + state[1]).sine;
    const vector phi_1 = -(0.5f * (state[3] * state[3]) + state[3] * state[2]) * bend.sine +
                         14.7f * angle_of(state[0]).sine + phi_2;
    const vector driven = torque + d_2 / d_1 * phi_1 - 0.5f * (state[2] * state[2]) * bend.sine - phi_2;
    rates[0] = state[2];
    rates[1] = state[3];
    rates[3] = driven / (1.25f - d_2 * d_2 / d_1);
    rates[2] = -(d_2 * rates[3] + phi_1) / d_1;
}

APART Outcome reach_up(vector *state, vector action)
{
    const float step = 0.2f, ahead[] = {0.1f, 0.1f, 0.2f}, weight[] = {2, 2, 1}; /* Runge and Kutta's */
    const float fastest[] = {(float)(4 * PI), (float)(9 * PI)};
    vector at[4], rates[4], sum[4];
    acrobot_rates(state, action - 1, rates);
    copy(sum, rates, 4);
    for (int stage = 0; stage < 3; stage++) {
        for (int i = 0; i < 4; i++)
            at[i] = state[i] + ahead[stage] * rates[i];
        acrobot_rates(at, action - 1, rates);
        for (int i = 0; i < 4; i++)
            sum[i] += weight[stage] * rates[i];
    }
    for (int link = 0; link < 2; link++) {
        state[link] = within_half_a_turn(state[link] + step / 6 * sum[link]);
        state[2 + link] = clipped(state[2 + link] + step / 6 * sum[2 + link], -fastest[link], fastest[link]);
    }
    const mask high = -angle_of(state[0]).cosine - angle_of(state[0] + state[1]).cosine > 1;
    return (Outcome){where(~high, every(-1)), high};
}

/* Moves the states, and gives the rewards and which episodes have terminated. */
static Outcome take_step(const Task *task, vector *state, mask action)
{
    const vector number = __builtin_convertvector(action, vector);
    if (task->task == MOUNTAIN_CAR)
        return drive(task, state, number);
    if (task->task == ACROBOT)
        return reach_up(state, number);
    return task->task == PENDULUM ? swing(task, state, number) : balance(task, state, number);
}

#endif
