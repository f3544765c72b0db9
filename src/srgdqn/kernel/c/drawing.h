/* D, drawn from the rings, and the inner picks, drawn from D. */

#ifndef DRAWING_H
#define DRAWING_H

#include "team.h"

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

/* Draws the words of one of the block's outer iterations. Those of all D come first, those of all picks last, so that
 * whoever needs no picks draws the same words before them. */
static void draw_words(Team *team, int member, int update)
{
    const Shape *shape = team->shape;
    const size_t before = step_words(shape), rows = shape->rows, picks = picked(shape);
    uint32_t *words = team->words[member] + before;
    random_words(team->key[member], before + update * rows, words, rows);
    random_words(team->key[member], before + shape->gradient_steps * rows + update * picks, words + rows, picks);
}

/* Chooses the rows of a member's D, and asks for them long before they are needed. */
static void choose_batch(Team *team, int member, int32_t index, int update)
{
    draw_words(team, member, update);
    const Shape *shape = team->shape;
    const int width = 2 * observation_size(&team->network) + 3;
    const float *ring = team->lanes->ring + (size_t)team->lane[member] * shape->slots * width;
    const int64_t written = ((int64_t)index + 1) * shape->block, newest = (written - 1) % shape->slots;
    const Divisor live = divisor((uint32_t)(written < shape->capacity ? written : shape->capacity));
    const uint32_t *words = team->words[member] + step_words(shape);
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
    const Batch batch = team->work.batch;
    const int size = observation_size(&team->network), seen = batch.rows_each * size;
    const float gamma = team->numbers.gamma[member];
    vector *next_observations = team->work.next_observations;
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
    const Batch from = team->work.batch, to = team->work.picks;
    const int seen = from.rows_each * observation_size(&team->network);
    const int b = shape->inner_batch, count = shape->inner_iterations * b;
    const uint32_t *words = team->words[member] + step_words(shape) + shape->rows;
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

#endif
