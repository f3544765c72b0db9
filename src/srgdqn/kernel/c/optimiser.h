/* What is done with a direction: clipping, the step along it, and Adam. */

#ifndef OPTIMISER_H
#define OPTIMISER_H

#include <math.h>

#include "settings.h"
#include "vectors.h"

typedef struct {
    vector *first, *second;
    mask updates;
} Moments;

typedef struct {
    vector NUMBER_NAMES;
} TeamNumbers;

INLINE vector root(vector v)
{
    UNROLL for (int i = 0; i < TEAM; i++) v[i] = sqrtf(v[i]);
    return v;
}

INLINE vector power(vector base, mask exponent)
{
    for (int i = 0; i < TEAM; i++)
        base[i] = powf(base[i], (float)exponent[i]);
    return base;
}

/* Of the values times a factor, which may be what keeps their squares from vanishing. */
INLINE vector scaled_norm(const vector *values, vector factor, int count)
{
    vector sums[4] = {{0}}; /* one alone would wait for itself */
    int i = 0;
    for (; i + 4 <= count; i += 4)
        UNROLL for (int k = 0; k < 4; k++) sums[k] += (values[i + k] * factor) * (values[i + k] * factor);
    for (; i < count; i++)
        sums[0] += (values[i] * factor) * (values[i] * factor);
    return root((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

static vector norm(const vector *values, int count) { return scaled_norm(values, every(1), count); }

/* θ -= size × direction */
static void descend(vector *theta, vector size, const vector *direction, int count)
{
    for (int i = 0; i < count; i++)
        theta[i] -= size * direction[i];
}

/* The factor that shortens a direction to `clip_norm`. */
static vector clipping(const Shape *shape, const TeamNumbers *numbers, const vector *direction, int count)
{
    return shape->clips ? at_most(numbers->clip_norm / norm(direction, count), every(1)) : every(1);
}

/* θ -= α m̂ / (√v̂ + ϵ), after the gradient, times a factor, has entered the moments. */
static void adam(const Shape *shape, const TeamNumbers *numbers, Moments *moments, const vector *gradient,
                 vector factor, vector alpha, vector *theta, int count)
{
    const vector beta1 = numbers->beta1, beta2 = numbers->beta2, epsilon = numbers->adam_epsilon;
    vector *first = moments->first, *second = moments->second;
    moments->updates += 1;
    const vector weight1 = 1 / (1 - power(beta1, moments->updates)), weight2 = 1 / (1 - power(beta2, moments->updates));
    for (int i = 0; i < count; i++) {
        vector g = gradient[i] * factor;
        first[i] = (1 - beta1) * g + beta1 * first[i];
        second[i] = (1 - beta2) * (g * g) + beta2 * second[i];
        if (!shape->adam_norm)
            theta[i] -= alpha * (first[i] * weight1) / (root(second[i] * weight2) + epsilon);
    }
    if (shape->adam_norm)
        descend(theta, alpha * weight1 / (root(scaled_norm(second, weight2, count)) + epsilon), first, count);
}

/* The factor on η and α once the share `progress` of the budget is spent. */
static vector schedule(const Shape *shape, const TeamNumbers *numbers, vector progress)
{
    if (shape->schedule == CONSTANT)
        return every(1);
    vector spent = at_most(progress, every(1)), left = 1 - spent;
    for (int i = 0; shape->schedule == COSINE && i < TEAM; i++)
        left[i] = 0.5f * (1 + cosf(3.14159265358979f * spent[i]));
    return (1 - numbers->schedule_end) * left + numbers->schedule_end;
}

#endif
