/* frozen.h - a file system of the test's own that can be frozen (fsfreeze): every write to it then blocks, in a sleep
 * that no signal ends. Needs root, loop devices and ext4. It is thawed when the test's process ends, however it does.
 */
#ifndef HLK_TEST_CLI_FROZEN_H
#define HLK_TEST_CLI_FROZEN_H

#include <stdbool.h>

/* Mounts it, in a mount namespace of this process; NULL: not allowed here, and why was printed. Else a folder in it. */
const char *frozen_mount(void);
void frozen_freeze(bool freeze);
void frozen_unmount(void);

#endif
