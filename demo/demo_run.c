/* demo_run.c - the parent's loop. Every few milliseconds it checks whether all workers have started, whether a holder
 * has reached its accident, which workers have ended, and whether time is up. It sends signals by process id, and only
 * to children that were not reaped yet. */
#include "demo_run.h"
#include "demo_stats.h"
#include "demo_text.h"
#include "say.h"

#include <hasplock/status.h>

#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS 4000000 /* between two checks */
#define LEASE_NS (DEMO_WATCHDOG_MS * INT64_C(1000000))
#define PATIENCE_NS (5 * LEASE_NS)   /* by then another holder must have the lock of a dead one */
#define OTHERS_NS (LEASE_NS * 2 / 5) /* how long the others continue before the stopped process is woken */

extern char **environ;

enum shown {
    SHOWN_NOTHING,
    SHOWN_KILLED,
    SHOWN_TAKEN,
    SHOWN_STOPPED,
    SHOWN_STOP_TAKEN,
    SHOWN_WOKEN,
    SHOWN_LOST,
    SHOWN_ALL
};

static struct demo_process *process_of(struct demo_run *run, int index)
{
    return &run->shared->processes[index];
}

static bool process_start(struct demo_run *run, int index)
{
    char number[16], name[] = "hasplock-demo", worker[] = "--worker";
    char *argv[] = { name, worker, number, NULL };
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;

    snprintf(number, sizeof number, "%d", index);
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    int err = posix_spawn_file_actions_adddup2(&actions, run->shared_fd, DEMO_WORKER_FD);
    if (!err)
        err = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (err) {
        say(SAY_ERROR, "error", "cannot start a process: %s", strerror(err));
        return false;
    }
    atomic_store(&process_of(run, index)->pid, (int)pid);
    return true;
}

/* The pid of a worker, or 0 for the killed process until it is restarted: its old pid may belong to another process. */
static int child_of(struct demo_run *run, int index)
{
    const struct demo_accident *killed = &run->shared->accidents[DEMO_KILL];
    int pid = atomic_load(&process_of(run, index)->pid);
    return atomic_load(&killed->state) == DEMO_HIT && pid == killed->pid ? 0 : pid;
}

/* Kills and reaps every remaining child, also stopped ones. */
static void end_all(struct demo_run *run)
{
    for (int i = 0; i < run->shared->order.processes; i++)
        if (child_of(run, i))
            kill(child_of(run, i), SIGKILL);
    for (int i = 0; i < run->shared->order.processes; i++) {
        int pid = child_of(run, i);
        while (pid && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        atomic_store(&process_of(run, i)->pid, 0);
    }
}

/* A child has ended. Returns 0 if that is in order. Else the reason is printed. */
static int process_ended(struct demo_run *run, int index, int status)
{
    struct demo_process *process = process_of(run, index);

    atomic_store(&process->pid, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (atomic_load(&process->failed))
        say(SAY_ERROR, "error", "process %d: %s", index + 1, process->error);
    else if (WIFSIGNALED(status))
        say(SAY_ERROR, "error", "process %d ended by signal %d", index + 1, WTERMSIG(status));
    else
        say(SAY_ERROR, "error", "process %d ended with code %d", index + 1, WEXITSTATUS(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : EX_SOFTWARE;
}

/* Returns the number of running children; *code is set when one has ended with a fault. */
static int look_after_children(struct demo_run *run, int *code)
{
    int running = 0;
    for (int i = 0; i < run->shared->order.processes; i++) {
        int status, pid = child_of(run, i);
        if (pid && waitpid(pid, &status, WNOHANG) == pid)
            *code = *code ? *code : process_ended(run, i, status);
        running += atomic_load(&process_of(run, i)->pid) != 0;
    }
    return running;
}

static bool all_ready(struct demo_run *run)
{
    for (int i = 0; i < run->shared->order.processes; i++)
        if (!atomic_load(&process_of(run, i)->ready))
            return false;
    return true;
}

static int process_index(const struct demo_run *run, int row)
{
    return row / run->shared->order.threads;
}

static void set_cells(struct demo_run *run, int process, int state)
{
    for (int i = 0; i < run->shared->order.threads; i++)
        demo_cell_set(run->shared, process * run->shared->order.threads + i, state);
}

/* The holder waits between read and write. It is killed with SIGKILL and reaped here. */
static void do_kill(struct demo_run *run, struct demo_accident *kill_it)
{
    struct demo_process *process = process_of(run, process_index(run, kill_it->row));

    kill_it->hit_ns = demo_now_ns();
    kill(kill_it->pid, SIGKILL);
    while (waitpid(kill_it->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    demo_bury(run->shared, kill_it->pid, kill_it->hit_ns);
    set_cells(run, process_index(run, kill_it->row), DEMO_DEAD);
    atomic_store(&process->ready, 0);
    atomic_store(&kill_it->state, DEMO_HIT);
}

/* Stops the holder's process with all its threads, and waits until it has stopped. False: it has ended instead. */
static bool do_stop(struct demo_run *run, struct demo_accident *stop, int *code)
{
    int status = 0;

    stop->hit_ns = demo_now_ns();
    kill(stop->pid, SIGSTOP);
    while (waitpid(stop->pid, &status, WUNTRACED) < 0 && errno == EINTR)
        ;
    if (WIFSTOPPED(status)) {
        atomic_store(&stop->state, DEMO_HIT);
        return true;
    }
    *code = process_ended(run, process_index(run, stop->row), status);
    *code = *code ? *code : EX_SOFTWARE;
    return false;
}

/* The next hold after the accident; NULL: none yet. */
static const struct demo_hold *taken_over(const struct demo_run *run, int kind)
{
    return demo_next_hold(run->shared, run->shared->accidents[kind].hit_ns);
}

static void begin_event(const struct demo_run *run, struct json *fields, const char *event, int row, int pid)
{
    demo_view_fields(run->view, fields, event);
    json_int(fields, "process", process_index(run, row) + 1);
    json_int(fields, "thread", row % run->shared->order.threads + 1);
    json_int(fields, "pid", pid);
}

static void show_hit(struct demo_run *run, int kind)
{
    const struct demo_accident *a = &run->shared->accidents[kind];
    const struct demo_view *v = run->view;
    bool dead = kind == DEMO_KILL;
    struct json fields;

    begin_event(run, &fields, dead ? "killed" : "stopped", a->row, a->pid);
    json_int(&fields, "stock_read", a->stock_read);
    demo_view_event(run->view, &fields, "%s%s%s while it holds the lock: process %d, pid %d (%s)", demo_on(v, 'b'),
                    dead ? "KILLED" : "STOPPED", demo_off(v), process_index(run, a->row) + 1, a->pid,
                    dead ? "SIGKILL" : "SIGSTOP");
}

static void show_taken(struct demo_run *run, int kind, const struct demo_hold *next)
{
    const struct demo_accident *a = &run->shared->accidents[kind];
    char word[DEMO_WORD];
    struct json fields;

    begin_event(run, &fields, "taken_over", next->row, next->pid);
    json_int(&fields, "after_ms", (next->got_ns - a->hit_ns) / 1000000);
    demo_view_event(run->view, &fields, "its lease ran out: process %d, pid %d got the lock %s later",
                    process_index(run, next->row) + 1, next->pid, demo_length(word, next->got_ns - a->hit_ns));
}

static void show_woken(struct demo_run *run)
{
    const struct demo_accident *a = &run->shared->accidents[DEMO_STOP];
    const struct demo_view *v = run->view;
    char word[DEMO_WORD], was[DEMO_WORD], is[DEMO_WORD];
    struct json fields;

    begin_event(run, &fields, "late_write_refused", a->row, a->pid);
    json_int(&fields, "stopped_ms", (a->resumed_ns - a->hit_ns) / 1000000);
    json_int(&fields, "left_ms", a->left_ms);
    json_int(&fields, "stock_read", a->stock_read);
    json_int(&fields, "stock_found", a->stock_found);
    demo_view_event(run->view, &fields, "woken after %s: it had read %s, the stock is %s now",
                    demo_length(word, a->resumed_ns - a->hit_ns), demo_number(was, a->stock_read),
                    demo_number(is, a->stock_found));
    demo_view_more(run->view, "%sits own check refuses%s its late write of %s: %" PRId64 " ms of lease left",
                   demo_on(v, 'g'), demo_off(v), demo_number(was, a->stock_read - 1), a->left_ms);
}

static void show_lost(struct demo_run *run)
{
    const struct demo_accident *a = &run->shared->accidents[DEMO_STOP];
    char word[DEMO_WORD];
    struct json fields;

    begin_event(run, &fields, "lost", a->row, a->pid);
    json_int(&fields, "after_wake_us", (a->lost_ns - a->resumed_ns) / 1000);
    json_string(&fields, "why", a->why);
    json_string(&fields, "release", hlk_status_name((enum hlk_status)a->release_status));
    demo_view_event(run->view, &fields, "told %sLOST%s %s after it woke; its release answered %s",
                    demo_on(run->view, 'w'), demo_off(run->view), demo_length(word, a->lost_ns - a->resumed_ns),
                    hlk_status_name((enum hlk_status)a->release_status));
    demo_view_more(run->view, "why: %s", a->why);
}

/* The first holder's lock has been taken over. */
static void kill_master(struct demo_run *run)
{
    const struct demo_view *v = run->view;
    struct json fields;

    run->master_killed_ns = demo_now_ns();
    pid_t pid = demo_masters_kill(run->masters, DEMO_MASTERS - 1);
    demo_view_fields(v, &fields, "master_killed");
    json_int(&fields, "master", DEMO_MASTERS);
    json_int(&fields, "pid", pid);
    demo_view_event(run->view, &fields, "%sKILLED%s server %d of %d, pid %d (SIGKILL): a majority is left",
                    demo_on(v, 'b'), demo_off(v), DEMO_MASTERS, DEMO_MASTERS, (int)pid);
}

/* Shows new events, in their order. */
static void show_accidents(struct demo_run *run)
{
    const struct demo_accident *killed = &run->shared->accidents[DEMO_KILL];
    const struct demo_accident *stopped = &run->shared->accidents[DEMO_STOP];
    const struct demo_hold *next;

    if (run->shown == SHOWN_NOTHING && atomic_load(&killed->state) == DEMO_HIT)
        show_hit(run, DEMO_KILL), run->shown = SHOWN_KILLED;
    if (run->shown == SHOWN_KILLED && (next = taken_over(run, DEMO_KILL)) != NULL)
        show_taken(run, DEMO_KILL, next), run->shown = SHOWN_TAKEN;
    if (run->shown == SHOWN_TAKEN && atomic_load(&stopped->state) >= DEMO_HIT)
        show_hit(run, DEMO_STOP), run->shown = SHOWN_STOPPED;
    if (run->shown == SHOWN_STOPPED && (next = taken_over(run, DEMO_STOP)) != NULL)
        show_taken(run, DEMO_STOP, next), run->shown = SHOWN_STOP_TAKEN;
    if (run->shown == SHOWN_STOP_TAKEN && atomic_load(&stopped->state) == DEMO_AWAKE)
        show_woken(run), run->shown = SHOWN_WOKEN;
    if (run->shown == SHOWN_WOKEN && atomic_load(&stopped->lost_ns))
        show_lost(run), run->shown = SHOWN_ALL;
}

/* Restarts the dead process, as a supervisor would, after another holder has got its lock. */
static bool after_kill(struct demo_run *run, const struct demo_accident *killed)
{
    int process = process_index(run, killed->row);

    if (atomic_load(&killed->state) != DEMO_HIT || atomic_load(&process_of(run, process)->pid) != killed->pid)
        return true;
    if (!taken_over(run, DEMO_KILL)) {
        if (demo_now_ns() - killed->hit_ns < PATIENCE_NS)
            return true;
        run->not_taken_over |= 1 << DEMO_KILL;
    }
    set_cells(run, process, DEMO_IDLE);
    atomic_store(&process_of(run, process)->pid, 0);
    return process_start(run, process);
}

/* Wakes the stopped process after others have had the lock and gone on selling for a while. */
static void after_stop(struct demo_run *run, struct demo_accident *stopped)
{
    if (atomic_load(&stopped->state) != DEMO_HIT || stopped->resumed_ns)
        return;
    const struct demo_hold *next = taken_over(run, DEMO_STOP);
    int64_t now_ns = demo_now_ns();
    if (!next && now_ns - stopped->hit_ns < PATIENCE_NS)
        return;
    if (next && now_ns - next->got_ns < OTHERS_NS && atomic_load(&run->shared->stock_left) > 0)
        return;
    if (!next)
        run->not_taken_over |= 1 << DEMO_STOP;
    stopped->resumed_ns = demo_now_ns();
    kill(stopped->pid, SIGCONT);
}

static void look_after_accidents(struct demo_run *run, int *code)
{
    struct demo_accident *killed = &run->shared->accidents[DEMO_KILL];
    struct demo_accident *stopped = &run->shared->accidents[DEMO_STOP];

    if (!run->shared->order.locked)
        return;
    if (atomic_load(&killed->state) == DEMO_STANDING)
        do_kill(run, killed);
    if (atomic_load(&stopped->state) == DEMO_STANDING && !do_stop(run, stopped, code))
        return;
    if (!after_kill(run, killed))
        *code = EX_OSERR;
    after_stop(run, stopped);
    show_accidents(run);
    if (run->masters && !run->master_killed_ns && run->shown >= SHOWN_TAKEN)
        kill_master(run);
}

/* Accidents happen at certain stock levels, or at certain times if those come first. The phase does not end before
 * them. */
static void look_at_time(struct demo_run *run)
{
    struct demo_shared *shared = run->shared;
    struct demo_accident *accidents = shared->accidents;
    int64_t spent_ns = demo_now_ns() - run->began_ns;

    for (int kind = 0; kind < DEMO_ACCIDENTS; kind++)
        if (spent_ns > run->limit_ns * (kind + 1) / 3)
            atomic_store(&accidents[kind].at_left, shared->order.items);
    bool happened = !shared->order.locked || atomic_load(&accidents[DEMO_STOP].state) == DEMO_AWAKE;
    if (spent_ns > run->limit_ns && happened)
        atomic_store(&shared->go, DEMO_END);
}

static bool start_all(struct demo_run *run)
{
    struct demo_shared *shared = run->shared;
    int items = shared->order.items;

    shared->order.parent_pid = (int)getpid();
    atomic_store(&shared->stock_left, items);
    atomic_store(&shared->accidents[DEMO_KILL].at_left, items - items / 4);
    atomic_store(&shared->accidents[DEMO_STOP].at_left, items - items / 2);
    for (int i = 0; i < shared->order.processes; i++) {
        if (!process_start(run, i))
            return false;
        run->first_pid[i] = atomic_load(&process_of(run, i)->pid);
    }
    return true;
}

static void look_at_start(struct demo_run *run)
{
    if (atomic_load(&run->shared->go) != DEMO_READY || !all_ready(run))
        return;
    run->began_ns = demo_now_ns();
    demo_view_phase(run->view, run->shared, run->began_ns, run->limit_ns);
    atomic_store(&run->shared->go, DEMO_GO);
}

int demo_run(struct demo_run *run)
{
    int code = start_all(run) ? 0 : EX_OSERR;

    while (!code && !*run->signal) {
        look_at_start(run);
        look_after_accidents(run, &code);
        if (look_after_children(run, &code) == 0)
            break;
        if (run->began_ns)
            look_at_time(run);
        demo_view_tick(run->view);
        nanosleep(&(struct timespec){ 0, LOOK_NS }, NULL);
    }
    run->ended_ns = demo_now_ns();
    end_all(run);
    show_accidents(run);
    demo_view_phase_end(run->view);
    return *run->signal ? 1 : code;
}
