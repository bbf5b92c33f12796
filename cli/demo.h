/* demo.h - `hasplock demo`: the main job made visible. Several processes with several threads each sell one stock that
 * lies in a real SQLite file, first without the lock, then with it; one holder is killed and one is stopped on the
 * way. */
#ifndef HLK_CLI_DEMO_H
#define HLK_CLI_DEMO_H

/* `argv[0]` is "demo". Returns the exit code: 0 when nothing was lost or overlapped under the lock, 1 when something
 * was, 64 usage, 69 no server, 70 the server refused, 71 no process or memory, 73 the picture cannot be written, 77
 * wrong password or right. A signal that ends it is raised again after the cleanup. Main thread, once. */
int hlk_demo_main(int argc, char **argv);

#endif
