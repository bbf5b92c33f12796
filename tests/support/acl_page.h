/* acl_page.h - the commands of docs/acl.md, by the section that each is in. */
#ifndef HLK_TEST_ACL_PAGE_H
#define HLK_TEST_ACL_PAGE_H

#include "support/raw.h"

/* The ACL SETUSER command of the section with this heading. Valid until this thread's next call. A section that is not
 * there, or has no command, ends the test. */
const char *acl_page_line(const char *section);

/* Runs it. `password`: instead of the page's; NULL: that one. */
void acl_page_run(redisContext *redis, const char *section, const char *password);

#endif
