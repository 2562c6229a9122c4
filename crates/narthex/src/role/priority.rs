//! Priorities of threads: scraping and receiving first, then rules, then queries, whose senders can wait.

/// Nice value of query threads: they get a third of the others' CPU weight.
const QUERIES: i32 = 5;
/// Nice value of the threads that evaluate rules.
const RULES: i32 = 2;

/// Gives the calling thread the priority of queries.
pub(super) fn of_queries() {
    lower_to(QUERIES);
}

/// Gives the calling thread the priority of rules.
pub(super) fn of_rules() {
    lower_to(RULES);
}

fn lower_to(nice: i32) {
    // Sets only the calling thread's priority. Ignoring an error is safe: it then has the usual one.
    let _ = rustix::process::setpriority_process(None, nice);
}
