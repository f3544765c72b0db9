/* Threefry-2x32 with 20 rounds (Salmon et al. 2011), giving the very words that jax.random gives. */

#ifndef RANDOM_H
#define RANDOM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "vectors.h"

typedef struct {
    uint32_t a, b;
} Key;

INLINE uint32_t rotated(uint32_t word, int by) { return word << by | word >> (32 - by); }

INLINE Key threefry(Key key, uint32_t a, uint32_t b)
{
    static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t keys[3] = {key.a, key.b, key.a ^ key.b ^ 0x1BD11BDA};
    a += keys[0];
    b += keys[1];
    UNROLL for (int group = 0; group < 5; group++)
    {
        UNROLL for (int i = 0; i < 4; i++)
        {
            a += b;
            b = rotated(b, turns[group % 2][i]) ^ a;
        }
        a += keys[(group + 1) % 3];
        b += keys[(group + 2) % 3] + group + 1;
    }
    return (Key){a, b};
}

/* jax.random.fold_in */
INLINE Key fold_in(Key key, uint32_t data) { return threefry(key, 0, data); }

/* Some of what jax.random.bits gives for fewer than 2³² words: those from number `first` on. */
static void random_words(Key key, uint32_t first, uint32_t *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        Key pair = threefry(key, 0, first + i);
        words[i] = pair.a ^ pair.b;
    }
}

/* jax.random.uniform */
static void uniform(Key key, float *out, int count, float low, float high)
{
    uint32_t words[4];
    random_words(key, 0, words, count);
    for (int i = 0; i < count; i++) {
        uint32_t bits = words[i] >> 9 | 0x3F800000;
        float number;
        memcpy(&number, &bits, sizeof number);
        number = (number - 1) * (high - low) + low;
        out[i] = number < low ? low : number;
    }
}

#endif
