/* title.h - what ps and pgrep show for a forked copy of an application. */
#ifndef HLK_NET_TITLE_H
#define HLK_NET_TITLE_H

/* Sets the process name to `name` (at most 15 bytes) and the command line to "name about", cut to the room of the old
 * one. The environment becomes empty, so getenv must not be called afterwards. What cannot be changed stays. Core dumps
 * are disabled, because the memory is a copy of the application's. Async-signal-safe. */
void hlk_title_set(const char *name, const char *about);

#endif
