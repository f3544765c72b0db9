/* The kernel's options and arrays. `structures.py` repeats the structures field by field. */

#ifndef SETTINGS_H
#define SETTINGS_H

#include <stdint.h>

#define MOST_LAYERS 8

enum { MOUNTAIN_CAR, PENDULUM, CART_POLE, ACROBOT };
enum { RAW, HEIGHT, DISTANCE, POSITION_AND_ANGLE, UPRIGHT_COSINE };
enum { TARGET_CURRENT, TARGET_OUTER, TARGET_HARD, TARGET_POLYAK };
enum { NONE, SGD, FULL, SVRG, SRG, STORM, STORM_INNER };
enum { CONSTANT, LINEAR, COSINE };
enum { STEPS, OUTER_ITERATIONS, EPISODES };

typedef struct {
    int32_t task, reward, integrates_unclipped;
    float first_torque, torque_spacing;
} Task;

/* Options that choose what is computed, and all sizes. */
typedef struct {
    Task task;
    int32_t layers, widths[MOST_LAYERS + 1]; /* of the observation, the hidden layers and the Q-values */
    int32_t target, double_q, mask_terminal, huber;
    int32_t estimator, inner_iterations, inner_batch, anchor_step;
    int32_t adam_steps, adam_process, adam_takes_gradient, adam_from_previous, adam_norm, clips, schedule;
    int32_t rows, matched_steps, shared; /* shared: the places of a vector are one round, and have a share of D each */
    int32_t block, gradient_steps, slots, capacity, newest, uniform_start;
    int32_t copied_by_steps; /* whether a hard target is copied before outer iterations, at multiples of an interval */
} Shape;

/* Options that are numbers: of each lane here, of eight rounds at once in `optimiser.h`. */
#define NUMBER_NAMES \
    reward_scale, epsilon_start, epsilon_end, epsilon_fraction, gamma, target_period, target_tau, huber_delta, \
        coefficient, eta, alpha, beta1, beta2, adam_epsilon, clip_norm, schedule_end, a, reset, \
        target_update_interval

typedef struct {
    float NUMBER_NAMES;
} Numbers;

typedef struct {
    int32_t unit;
    float amount;
    int32_t first_learning, last_block, time_limit;
} Limits;

/* Weights and biases of all lanes, layer after layer. */
typedef struct {
    float *leaves[2 * MOST_LAYERS];
} Tree;

/* A learner's: θ, Adam's first and second moment, a target network's θ, and the θ and Δ that STORM remembers. Of the
 * last three, those that the configuration does not use are never looked at. */
#define LEARNER_TREES 6

/* Arrays with an axis of lanes first. */
typedef struct {
    const uint32_t *key;
    float *state, *observation, *ring;
    Tree learner[LEARNER_TREES];
    int32_t *episode_steps, *updates, *iterations, *episodes, *diverged_at;
    uint8_t *active;
    const float *mean, *deviation; /* that observations are scaled with; NULL where they are not */
} Lanes;

/* The learner of one round. */
typedef struct {
    Tree learner[LEARNER_TREES];
    int32_t *updates, *iterations;
    const float *mean, *deviation; /* as of lanes; they are never copied out */
} LearnerState;

/* Arrays with axes of lanes and of blocks first. */
typedef struct {
    float *reward, *loss, *max_q, *delta_norm, *theta_norm;
    uint8_t *flags;
    float *first_delta, *first_gradient; /* of the first layer: weights, then biases; NULL where nobody asks for them */
} Log;

#endif
