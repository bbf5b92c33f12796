/* again.h - --watch of show and list: they look again and again. A terminal shows the latest look;
 * elsewhere each change is kept. */
#ifndef HLK_CLI_AGAIN_H
#define HLK_CLI_AGAIN_H

#include "options.h"

#include <stdbool.h>

bool again_on_screen(const struct options *options);    /* is it a terminal? Not with --json */
bool again_clear_screen(void);                          /* false: as say_answer */
void again_pause(const struct options *options);        /* until the next look */

#endif
