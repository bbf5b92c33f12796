/* semaphores.h - the semaphore of the soak. Its permits have no holder: those of a process that was killed are gone for
 * good, and those that were out when the server lost its data come back into the next one. So it has generations, each
 * with a name of its own and all permits. The parent closes one when data is lost, and some time after a process was
 * killed, and begins the next one. What happens to a generation after that counts no more. */
#ifndef HLK_SOAK_SEMAPHORES_H
#define HLK_SOAK_SEMAPHORES_H

#include "shared.h"

enum { SEMAPHORE_NAME = 64 };
void semaphore_name(char name[SEMAPHORE_NAME], const struct soak *soak, int generation);

/* The parent's. */
void semaphores_begin(struct soak *soak, hlk_client *operator);     /* of a round */
void semaphores_lose(struct soak *soak, int64_t now);               /* data is about to be lost */
void semaphores_renew_at(int64_t at_ms);                            /* the next one begins then */
void semaphores_renew_due(struct soak *soak, hlk_client *operator);

#endif
