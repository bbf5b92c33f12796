#include "quorum/report.h"

#include "base/debug.h"

void hlk_quorum_report_add(struct hlk_quorum *quorum, struct hlk_quorum_report *report)
{
    hlk_mutex_assert_held(&quorum->all->mu);
    HLK_DEBUG_ASSERT(report->job && !report->ready && !hlk_list_linked(&report->link));
    hlk_list_push_back(&quorum->reports, &report->link);
}

static struct hlk_quorum_report *pop_ready(struct hlk_quorum *quorum)
{
    hlk_mutex_assert_held(&quorum->all->mu);
    struct hlk_list *first = quorum->reports.next;
    struct hlk_quorum_report *report = HLK_CONTAINER(first, struct hlk_quorum_report, link);
    if (first == &quorum->reports || !report->ready)
        return NULL;
    hlk_list_remove(first);
    return report;
}

void hlk_quorum_report_complete(struct hlk_quorum *quorum, struct hlk_quorum_report *report)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(report->job);
    hlk_mutex_lock(&quorum->all->mu);
    report->ready = true;
    if (!hlk_list_linked(&report->link))
        hlk_client_complete(quorum->client, report->job); /* from here on it may be gone */
    while ((report = pop_ready(quorum)))
        hlk_client_complete(quorum->client, report->job);
    hlk_quorum_unlock(quorum);
}
