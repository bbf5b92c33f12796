/* demo_worker.h - one of the demo's shops: a process with several threads that sell from the shared stock. */
#ifndef HLK_DEMO_WORKER_H
#define HLK_DEMO_WORKER_H

/* Runs worker `process` (0, 1, ...). Its order is in the file at DEMO_WORKER_FD. Returns the exit code: 0 when the
 * stock is empty or the parent has ended the phase. Dies with its parent. Main thread, once. */
int demo_worker_main(int process);

#endif
