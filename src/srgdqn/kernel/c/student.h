/* One round whose environment is elsewhere. All places of a vector hold its parameters; where D can be shared out evenly
 * among them, each computes the gradients of its share. */

#ifndef STUDENT_H
#define STUDENT_H

#include "memory.h"

typedef struct {
    Arena arena;
    Shape shape;
    int rows; /* of D in all */
    Network network;
    Workshop shop;
    Learner learner, kept; /* as it is, and as it was before the outer iteration */
    TeamNumbers numbers;
    Activations acting;
    vector *observation;
} Student;

static void take_student(Student *student, Arena *arena)
{
    const Network *network = &student->network;
    student->shop = take_workshop(arena, network, &student->shape);
    student->learner = take_learner(arena, network);
    student->kept = take_learner(arena, network);
    student->acting = take_activations(arena, network, 1);
    student->observation = take_vectors(arena, observation_size(network));
}

static Student *make_student(const Shape *shape, const float *numbers)
{
    Student *student = aligned_alloc(ALIGNMENT, (sizeof *student + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (!student)
        return NULL;
    memset(student, 0, sizeof *student);
    student->shape = *shape;
    student->rows = shape->rows;
    student->shape.shared = shape->rows % TEAM == 0;
    if (student->shape.shared)
        student->shape.rows = shape->rows / TEAM;
    student->network = make_network(&student->shape);
    vector *each = (vector *)&student->numbers;
    for (size_t i = 0; i < sizeof(Numbers) / sizeof(float); i++)
        each[i] = every(numbers[i]);
    take_student(student, &student->arena);
    if (!allocate(&student->arena)) {
        free(student);
        return NULL;
    }
    take_student(student, &student->arena);
    return student;
}

static void move_mind(Student *student, const Mind *mind, int into)
{
    const Network *network = &student->network;
    Learner *learner = &student->learner;
    const Tree *trees[] = {&mind->parameters, &mind->first_moment, &mind->second_moment, &mind->target};
    vector *arrays[] = {learner->theta, learner->moments.first, learner->moments.second, learner->target};
    for (int tree = 0; tree < 3 + has_target_network(&student->shape); tree++)
        for (int place = 0; place < (into ? TEAM : 1); place++)
            move_parameters(network, trees[tree], 0, arrays[tree], place, into);
    if (into) {
        learner->moments.updates = (mask){0} + *mind->updates;
        learner->iterations = (mask){0} + *mind->iterations;
    } else {
        *mind->updates = learner->moments.updates[0];
        *mind->iterations = learner->iterations[0];
    }
}

/* Where transition t of D lies: all of a vector's places at `row`, or one of them. */
typedef struct {
    int row, place;
} Seat;

INLINE Seat seat_of(const Student *student, int t)
{
    return student->shape.shared ? (Seat){t / TEAM, t % TEAM} : (Seat){t, -1};
}

INLINE void put(vector *at, Seat seat, float value)
{
    if (seat.place < 0)
        *at = every(value);
    else
        (*at)[seat.place] = value;
}

static void read_batch(Student *student, const float *rows)
{
    const Shape *shape = &student->shape;
    const Batch batch = student->shop.batch;
    const int size = observation_size(&student->network), seen = batch.rows_each * size;
    const float gamma = student->numbers.gamma[0];
    for (int t = 0; t < student->rows; t++, rows += 2 * size + 3) {
        const Seat seat = seat_of(student, t);
        for (int i = 0; i < seen; i++)
            put(&batch.observations[seat.row * seen + i], seat, rows[i]);
        for (int i = 0; seen == size && i < size; i++)
            put(&student->shop.next_observations[seat.row * size + i], seat, rows[size + i]);
        put(&batch.action[seat.row], seat, rows[2 * size]);
        put(&batch.reward[seat.row], seat, rows[2 * size + 1]);
        put(&batch.discount[seat.row], seat, gamma * (shape->mask_terminal ? 1 - rows[2 * size + 2] : 1));
    }
}

/* The inner picks, each at all places; the last one once more, so that there always is a next. */
static void read_picks(Student *student, const int32_t *picks)
{
    const Shape *shape = &student->shape;
    const Batch from = student->shop.batch, to = student->shop.picks;
    const int seen = from.rows_each * observation_size(&student->network);
    const int b = shape->inner_batch, count = shape->inner_iterations * b;
    for (int p = 0; p < count + b; p++) {
        const Seat seat = seat_of(student, picks[p < count ? p : p - b]);
        const int place = seat.place < 0 ? 0 : seat.place;
        for (int i = 0; i < seen; i++)
            to.observations[p * seen + i] = every(from.observations[seat.row * seen + i][place]);
        to.action[p] = every(from.action[seat.row][place]);
        to.reward[p] = every(from.reward[seat.row][place]);
        to.discount[p] = every(from.discount[seat.row][place]);
        to.y[p] = every(from.y[seat.row][place]);
    }
}

static int teach(Student *student, const float *rows, const int32_t *picks, float progress, float *diagnostics)
{
    const Shape *shape = &student->shape;
    Workshop *shop = &student->shop;
    const int size = student->network.size, with_target = has_target_network(shape);
    read_batch(student, rows);
    if (shape->target != TARGET_CURRENT)
        freeze_targets(&student->network, with_target ? student->learner.target : student->learner.theta,
                       shop->next_observations, &shop->batch, shape->rows, &shop->targets);
    if (has_picks(shape))
        read_picks(student, picks);
    copy_learner(&student->kept, &student->learner, size, with_target);
    const Diagnostics d = outer_iteration(shape, &student->numbers, &student->network, student->kept.theta,
                                          &student->learner, shop, every(progress));
    const float told[] = {d.loss[0], d.max_q[0], d.delta_norm[0], d.theta_norm[0]};
    memcpy(diagnostics, told, sizeof told);
    const int good = isfinite(told[2]) && isfinite(told[3]);
    if (!good)
        copy_learner(&student->learner, &student->kept, size, with_target);
    return good;
}

static int32_t best_action(Student *student, const float *observation)
{
    const Network *network = &student->network;
    for (int i = 0; i < observation_size(network); i++)
        student->observation[i] = every(observation[i]);
    student->acting.observations = student->observation;
    forward_one(network, student->learner.theta, &student->acting);
    return best(student->acting.q, action_count(network))[0];
}

#endif
