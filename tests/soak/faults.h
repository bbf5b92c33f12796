/* faults.h - what is done to the clients, the network and the server of a round, drawn from the seed. */
#ifndef HLK_SOAK_FAULTS_H
#define HLK_SOAK_FAULTS_H

#include "judge.h"

#include "support/proxy.h"
#include "support/raw.h"
#include "support/server.h"

enum fault {
    FAULT_KILL, FAULT_STOP, FAULT_KILL_PUBSUB, FAULT_KILL_NORMAL, FAULT_DELAY, FAULT_CUT, FAULT_CUT_BEFORE,
    FAULT_CUT_AFTER, FAULT_LATE, FAULT_FREEZE, FAULT_UNREAD, FAULT_REFUSE, FAULT_DROP_MESSAGES,
    FAULT_HOLD_CONFIRMATIONS, FAULT_SCRIPT_FLUSH, FAULT_BREAK, FAULT_DEL, FAULT_SERVER_STOP, FAULT_SERVER_RESTART,
    FAULT_SERVER_WIPE, FAULT_FULL, FAULT_NO_REPLICAS, FAULT_REPLICA,
    FAULTS
};
extern const char *const fault_names[FAULTS];

struct run {                  /* the parent's */
    struct soak   *soak;
    int            fd;          /* the shared memory */
    struct server *server;
    struct proxy  *proxies[PROXIES];
    redisContext  *redis;
    hlk_client    *operator;
    hlk_lock      *locks[LOCKS];
    pid_t          pids[SLOTS];     /* 0: none */
    bool           stopped[SLOTS];
    struct soak_rng rng;

    uint32_t       kinds;           /* of this round */
    int64_t        gap_ms;          /* between two faults, on the average */
    int64_t        heal_at[FAULTS], heal_slot_at[SLOTS];
    int            heal_proxy[FAULTS];
    struct soak_deed deeds[4096];
    size_t         deed_count;
    uint64_t       counts[FAULTS];

    struct { int64_t at; char text[80]; } shown[FAULTS_SHOWN];      /* of this round */
    size_t         shown_count;
};

void run_start_process(struct run *run, int slot);

void faults_begin(struct run *run);         /* draws what this round is like */
void faults_one(struct run *run);           /* strikes */
void faults_heal_due(struct run *run);      /* ends what has lasted long enough */
void faults_heal_all(struct run *run);

#endif
