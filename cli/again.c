/* again.c - see again.h. */
#include "again.h"

#include "say.h"

#include <time.h>
#include <unistd.h>

bool again_on_screen(const struct options *options)
{
    return isatty(STDOUT_FILENO) && !options->json;
}

bool again_clear_screen(void)
{
    static const char home[] = "\033[H\033[J";
    return say_answer(home, sizeof home - 1);
}

void again_pause(const struct options *options)
{
    struct timespec pause = { (time_t)(options->watch_ms / 1000), (long)(options->watch_ms % 1000) * 1000000 };
    nanosleep(&pause, NULL);
}
