/* Numbers, eight at a time: one of each of eight rounds. Everything a round does is written as if for one number, and
 * none of the eight ever meets another. */

#ifndef VECTORS_H
#define VECTORS_H

#include <stdint.h>

#define TEAM 8 /* rounds side by side */
#define INLINE static inline __attribute__((always_inline))
#define APART static __attribute__((noinline)) /* registers are given out better within less code */
#define UNROLL _Pragma("GCC unroll 8")

typedef float vector __attribute__((vector_size(4 * TEAM)));
typedef int32_t mask __attribute__((vector_size(4 * TEAM)));

INLINE vector every(float value) { return value - (vector){0}; }

/* The mean of all places, at each of them. */
INLINE vector averaged(vector v)
{
    float sum = ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
    return every(sum * (1.0f / TEAM));
}

/* The numbers where the mask is set, and 0 elsewhere. */
INLINE vector where(mask set, vector v) { return (vector)(set & (mask)v); }

INLINE vector choose(mask set, vector yes, vector no) { return (vector)((set & (mask)yes) | (~set & (mask)no)); }

/* The smaller and the larger of two; a NaN in the first stays one. */
INLINE vector at_most(vector v, vector most) { return choose(v > most, most, v); }
INLINE vector at_least(vector v, vector least) { return choose(v < least, least, v); }

/* The larger of two, or a NaN where either is one. */
INLINE vector larger(vector a, vector b) { return choose((b > a) | (b != b), b, a); }

/* Keeps the compiler from loading a number anew wherever it is used, which costs more than the arithmetic. */
#ifdef __AVX__
#define IN_REGISTER(v) __asm__("" : "+x"(v))
#else
#define IN_REGISTER(v)
#endif

/* A matrix whose element (i, k) lies at i * down + k * across. */
typedef struct {
    const vector *at;
    int down, across;
} Matrix;

/* Where a product goes, and what else is done with it. */
typedef struct {
    vector *out;
    const vector *start; /* what it is added to, unless NULL */
    const vector *gate;  /* unless NULL: sets to 0 what falls on numbers here that are not above 0 */
    int out_down, start_down, gate_down, steps;
    int rectify; /* sets negative numbers to 0 */
} Product;

INLINE vector rectified(vector v) { return where(~(v < 0), v); /* a NaN stays one */ }

/* A few rows and columns, whose sums are all held in registers. */
INLINE void tile(Product p, Matrix left, Matrix right, const int rows, const int columns)
{
    vector sum[4][8];
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int c = 0; c < columns; c++)
        sum[i][c] = p.start ? p.start[i * p.start_down + c] : (vector){0};
    for (int k = 0; k < p.steps; k++) {
        vector along[8];
        UNROLL for (int c = 0; c < columns; c++)
        {
            along[c] = right.at[k * right.down + c * right.across];
            if (rows > 1)
                IN_REGISTER(along[c]);
        }
        UNROLL for (int i = 0; i < rows; i++)
        {
            vector factor = left.at[i * left.down + k * left.across];
            IN_REGISTER(factor);
            UNROLL for (int c = 0; c < columns; c++) sum[i][c] += factor * along[c];
        }
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int c = 0; c < columns; c++)
    {
        vector result = p.rectify ? rectified(sum[i][c]) : sum[i][c];
        p.out[i * p.out_down + c] = p.gate ? where(p.gate[i * p.gate_down + c] > 0, result) : result;
    }
}

INLINE Product moved(Product p, int rows, int columns)
{
    p.out += rows * p.out_down + columns;
    p.start += p.start ? rows * p.start_down + columns : 0;
    p.gate += p.gate ? rows * p.gate_down + columns : 0;
    return p;
}

INLINE void all_rows(Product p, Matrix left, Matrix right, int rows, const int columns)
{
    for (; rows >= 4; rows -= 4, p = moved(p, 4, 0), left.at += 4 * left.down)
        tile(p, left, right, 4, columns);
    if (rows == 3)
        tile(p, left, right, 3, columns);
    else if (rows == 2)
        tile(p, left, right, 2, columns);
    else if (rows == 1)
        tile(p, left, right, 1, columns);
}

/* out = start + left right: (rows, steps) times (steps, columns). */
INLINE void multiply(Product p, Matrix left, Matrix right, int rows, int columns)
{
    for (; columns >= 3; columns -= 3, p = moved(p, 0, 3), right.at += 3 * right.across)
        all_rows(p, left, right, rows, 3);
    if (columns == 2)
        all_rows(p, left, right, rows, 2);
    else if (columns == 1)
        all_rows(p, left, right, rows, 1);
}

/* The same for one row: more columns at once, so that there are enough sums not to wait for each other. */
INLINE void multiply_row(Product p, Matrix left, Matrix right, int columns)
{
    for (; columns >= 8; columns -= 8, p = moved(p, 0, 8), right.at += 8 * right.across)
        tile(p, left, right, 1, 8);
    for (; columns >= 4; columns -= 4, p = moved(p, 0, 4), right.at += 4 * right.across)
        tile(p, left, right, 1, 4);
    multiply(p, left, right, 1, columns);
}

#endif
