/* demo_worker.h - one of the demo's shops: a process with several threads that sell from the shared stock. */
#ifndef HLK_CLI_DEMO_WORKER_H
#define HLK_CLI_DEMO_WORKER_H

/* The whole life of worker `process` (0, 1, ...), whose order lies in the file at DEMO_WORKER_FD. Returns the exit
 * code: 0 when it has sold until the stock was empty or it was told to end. Dies with its parent. Main thread, once.
 * */
int demo_worker_main(int process);

#endif
