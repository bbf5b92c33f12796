/* line_peer.h - a peer program that answers each line with a line; one for each process.
 *
 *     line_peer_start("python3 peer.py 127.0.0.1:6379");
 *     cr_assert_str_eq(line_peer_ask("acquire t 20000"), "ok");
 *     line_peer_tell("wait t 20000");                  starts what may take long
 *     ...
 *     cr_assert_str_eq(line_peer_answer(), "ok");      collects it
 *
 * A peer that has ended ends the test with a line on stderr. */
#ifndef HLK_TEST_LINE_PEER_H
#define HLK_TEST_LINE_PEER_H

void line_peer_start(const char *command);      /* for a shell */
void line_peer_end(void);                       /* its input ends; waits until it has ended */

void line_peer_tell(const char *line);
const char *line_peer_answer(void);             /* valid until the next one */
const char *line_peer_ask(const char *line);    /* both */

#endif
