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

/* Draws the words of one of the block's outer iterations and, with the first, those of the steps. Of a block's words
 * those of its steps come first, then those of every D, and those of all picks last, so that whoever needs no picks
 * draws the same words before them. */
static void draw_words(Team *team, int member, int update)
{
    const Shape *shape = team->shape;
    const Key key = team->key[member];
    const uint32_t steps = step_words(shape), rows = shape->rows, picks = picked(shape);
    uint32_t *words = team->words[member];
    const uint32_t first = update ? steps + update * rows : 0, place = update ? steps : 0;
    const int together = shape->gradient_steps == 1; /* one long loop takes less time than several short ones */
    random_words(key, first, words + place, steps + rows - place + (together ? picks : 0));
    if (!together)
        random_words(key, steps + shape->gradient_steps * rows + update * picks, words + steps + rows, picks);
}

/* Chooses the rows of a member's D, and asks for them long before they are needed. */
static void choose_batch(Team *team, int member, int32_t index)
{
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
    const Batch batch = team->work.batch;
    const int rows = team->shape->rows, masks = team->shape->mask_terminal, size = observation_size(&team->network);
    const float gamma = team->numbers.gamma[member], *const *drawn = team->drawn[member];
    float *seen = &batch.observations[0][0] + member, *next = &team->work.next_observations[0][0] + member;
    for (int t = 0; t < rows; t++) {
        const float *row = drawn[t];
        for (int i = 0; i < size; i++, seen += TEAM)
            *seen = row[i];
        if (batch.rows_each == 2)
            for (int i = 0; i < size; i++, seen += TEAM)
                *seen = row[size + i];
        else
            for (int i = 0; i < size; i++, next += TEAM)
                *next = row[size + i];
        batch.action[t][member] = row[2 * size];
        batch.reward[t][member] = row[2 * size + 1];
        batch.discount[t][member] = gamma * (masks ? 1 - row[2 * size + 2] : 1);
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
