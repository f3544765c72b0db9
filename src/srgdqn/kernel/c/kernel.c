/* The training loop of `srgdqn.training`, for teams of eight rounds, one team after another: a team's parameters stay
 * in the caches nearest to the processor, and what one round does depends on no other.
 *
 * `run_segment` and `run_evaluation` are called from outside, and give 0, or 1 if memory ran out; so are the functions
 * of the learner of a single round whose environment runs in Python, at the end.
 */

#include "acting.h"
#include "learning.h"
#include "host_learner.h"

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

/* Numbers too small to be normal count as 0, as in programs compiled by XLA: they are slow, and mean nothing here. */
static unsigned flush_tiny(void)
{
#ifdef __x86_64__
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
    return before;
#else
    return 0;
#endif
}

static void restore_tiny(unsigned before)
{
#ifdef __x86_64__
    _mm_setcsr(before);
#else
    (void)before;
#endif
}

static void run_team(Team *team, int32_t first, int32_t blocks)
{
    const Limits *limits = team->limits;
    for (int32_t index = first; index < first + blocks && any(team->active); index++) {
        const int learns = index >= limits->first_learning && index < limits->last_block;
        for (int member = 0; member < team->members; member++) {
            const uint32_t *key = team->lanes->key + 2 * team->lane[member];
            team->key[member] = fold_in((Key){key[0], key[1]}, (uint32_t)index * 3);
            draw_words(team, member, 0);
            if (learns)
                choose_batch(team, member, index);
        }
        act(team, index, index - first, blocks);
        if (learns)
            learn(team, index, index - first, blocks);
        if (limits->unit == EPISODES)
            team->active &= __builtin_convertvector(team->episodes, vector) < limits->amount;
    }
}

/* Runs blocks of every active lane. */
int run_segment(const Shape *shape, const float *numbers, const Limits *limits, const Lanes *lanes, const Log *log,
                int32_t count, int32_t first, int32_t blocks)
{
    Arena arena = {0};
    take_team(&arena, shape, limits, lanes, log);
    const size_t names = arena.used;
    take(&arena, count * sizeof(int32_t));
    if (!allocate(&arena))
        return 1;
    Team team = take_team(&arena, shape, limits, lanes, log);
    int32_t *active = (int32_t *)(arena.at + names), members = 0;
    for (int lane = 0; lane < count; lane++)
        if (lanes->active[lane])
            active[members++] = lane;
    const unsigned mode = flush_tiny();
    for (int begin = 0; begin < members; begin += TEAM) {
        assemble(&team, numbers, active + begin, members - begin);
        run_team(&team, first, blocks);
        dismiss(&team);
    }
    restore_tiny(mode);
    free(arena.at);
    return 0;
}

/* Greedy episodes of eight rounds from one start: their rewards, lengths, and whether they terminated. */
typedef struct {
    vector total_reward;
    mask length, terminated;
} Played;

static Played play(const Task *task, const Network *network, const vector *theta, const Scale *scale, Activations room,
                   int members, Key start, int32_t limit)
{
    Played played = {{0}, {0}, {0}};
    vector state[MOST_NUMBERS], observation[MOST_NUMBERS];
    room.observations = observation;
    for (int member = 0; member < TEAM; member++)
        begin(task, start, state, member);
    for (int idle = members; idle < TEAM; idle++) /* nobody waits for them */
        played.terminated[idle] = -1;
    for (int32_t step = 0; step < limit && any(~played.terminated); step++) {
        observe(task, state, observation);
        if (scale->on)
            scale_rows(scale, observation, observation, 1, observation_size(network));
        forward_one(network, theta, &room);
        const Outcome outcome = take_step(task, state, best(room.q, action_count(network)));
        played.total_reward += where(~played.terminated, outcome.reward);
        played.length -= ~played.terminated;
        played.terminated |= outcome.terminated;
    }
    return played;
}

/* Greedy episodes of every lane, from the same starts; observations are scaled with what `Lanes` says. */
int run_evaluation(const Shape *shape, const Tree *parameters, const float *mean, const float *deviation,
                   const Key *starts, int32_t count, int32_t episodes, int32_t limit, float *total_reward,
                   int32_t *length, uint8_t *terminated)
{
    const Network network = make_network(shape);
    Arena arena = {0};
    Activations room;
    Scale scale;
    vector *theta;
    const int size = observation_size(&network);
    for (int measured = 0; measured < 2; measured++) {
        theta = take_vectors(&arena, network.size);
        room = take_activations(&arena, &network, 1);
        scale = take_scale(&arena, &network);
        if (!measured && !allocate(&arena))
            return 1;
    }
    const unsigned mode = flush_tiny();
    for (int first = 0; first < count; first += TEAM) {
        const int members = count - first < TEAM ? count - first : TEAM;
        for (int member = 0; member < members; member++)
            move_parameters(&network, parameters, first + member, theta, member, 1);
        for (int place = 0; place < TEAM; place++) /* idle places too: whatever is divided by must not be 0 */
            read_scale(&scale, mean, deviation, first + (place < members ? place : 0), size, place);
        for (int e = 0; e < episodes; e++) {
            const Played played = play(&shape->task, &network, theta, &scale, room, members, starts[e], limit);
            for (int member = 0; member < members; member++) {
                const size_t at = (size_t)(first + member) * episodes + e;
                total_reward[at] = played.total_reward[member];
                length[at] = played.length[member];
                terminated[at] = played.terminated[member] != 0;
            }
        }
    }
    restore_tiny(mode);
    free(arena.at);
    return 0;
}

/* The learner of a round whose environment runs in Python; NULL if memory ran out. */
void *open_host_learner(const Shape *shape, const float *numbers) { return make_host_learner(shape, numbers); }

void close_host_learner(HostLearner *host)
{
    free(host->arena.at);
    free(host);
}

/* Copies a state into the learner, or the state of the learner out. */
void move_host_learner(HostLearner *host, const LearnerState *state, int into) { move_state(host, state, into); }

/* One outer iteration; 0 if it led to numbers that are not finite and was undone. */
int host_learn(HostLearner *host, const float *rows, const int32_t *picks, float progress, int renewed,
               float *diagnostics)
{
    const unsigned mode = flush_tiny();
    const int good = learn_from(host, rows, picks, progress, renewed, diagnostics);
    restore_tiny(mode);
    return good;
}

/* The best action for an observation. */
int32_t host_act(HostLearner *host, const float *observation)
{
    const unsigned mode = flush_tiny();
    const int32_t action = best_action(host, observation);
    restore_tiny(mode);
    return action;
}

/* The caller compares its own structures with these. */
const int32_t structure_sizes[] = {sizeof(Shape), sizeof(Numbers), sizeof(Limits), sizeof(Lanes), sizeof(Log),
                                   sizeof(LearnerState)};
