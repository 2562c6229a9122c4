//! Tests of the index: order, growth, reuse of slots, and that everything is freed exactly once.

use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::{Duration, Instant};

use super::*;

struct Word {
    text: String,
    alive: Arc<AtomicUsize>,
}

impl Item for Word {
    type Derived = ();

    fn order(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Drop for Word {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Relaxed);
        self.text.clear();
    }
}

/// Returns few different hashes, so that probing and tombs are exercised.
fn hash(text: &str) -> u64 {
    text.bytes().map(u64::from).sum::<u64>() % 13
}

fn insert(index: &Index<Word>, alive: &Arc<AtomicUsize>, text: &str) -> Arc<Word> {
    let made = index.get_or_insert(
        hash(text),
        |word| word.text == text,
        |_| {
            alive.fetch_add(1, Relaxed);
            Some(Arc::new(Word {
                text: text.to_owned(),
                alive: Arc::clone(alive),
            }))
        },
    );
    made.unwrap()
}

fn remove(index: &Index<Word>, text: &str) -> bool {
    index.remove(hash(text), |word| word.text == text)
}

fn texts(index: &Index<Word>) -> Vec<String> {
    index
        .sorted()
        .items()
        .map(|word| word.text.clone())
        .collect()
}

#[test]
fn lists_in_order_whatever_came_and_went() {
    let index = Index::new();
    let alive = Arc::default();
    for text in ["m", "c", "x"] {
        insert(&index, &alive, text);
    }
    assert_eq!(texts(&index), ["c", "m", "x"]);
    insert(&index, &alive, "d");
    insert(&index, &alive, "z");
    insert(&index, &alive, "a");
    assert!(remove(&index, "m"));
    assert!(remove(&index, "z"));
    assert!(!remove(&index, "z"));
    assert_eq!(texts(&index), ["a", "c", "d", "x"]);
    insert(&index, &alive, "m");
    assert_eq!(texts(&index), ["a", "c", "d", "m", "x"]);
    assert_eq!(index.len(), 5);
}

#[test]
fn leaves_that_did_not_change_are_kept() {
    let index = Index::new();
    let alive = Arc::default();
    let text = |i: usize| format!("{i:05}");
    for i in (0..4000).step_by(2) {
        insert(&index, &alive, &text(i));
    }
    let addresses = |leaves: &Leaves<Word>| -> Vec<*const Leaf<Word>> {
        leaves.iter().map(ptr::from_ref).collect()
    };
    let before = index.sorted();
    assert!(before.iter().count() > 4);
    insert(&index, &alive, &text(1001));
    remove(&index, &text(3000));
    let after = index.sorted();
    let kept = addresses(&before);
    let changed = addresses(&after)
        .into_iter()
        .filter(|leaf| !kept.contains(leaf))
        .count();
    assert_eq!(changed, 2);
    assert!(Arc::ptr_eq(&after, &index.sorted()));
    // Whatever comes and goes, leaves stay of a size between which the bounds are.
    for i in 0..4000 {
        if i % 3 == 0 {
            remove(&index, &text(i));
        } else if i % 7 == 0 {
            insert(&index, &alive, &text(i));
        }
        if i % 50 == 0 {
            index.sorted();
        }
    }
    let sizes: Vec<usize> = index.sorted().iter().map(|leaf| leaf.items.len()).collect();
    assert!(
        sizes[..sizes.len() - 1]
            .iter()
            .all(|size| (128..512).contains(size)),
        "{sizes:?}"
    );
    let listed = texts(&index);
    assert!(listed.is_sorted() && listed.len() == index.len());
}

#[test]
fn a_removed_item_stays_usable_for_its_holders_and_is_freed_after_them() {
    let index = Index::new();
    let alive = Arc::<AtomicUsize>::default();
    let held = insert(&index, &alive, "held");
    texts(&index);
    assert!(remove(&index, "held"));
    assert_eq!(held.text, "held");
    assert!(
        index
            .get(hash("held"), |word| word.text == "held")
            .is_none()
    );
    drop(held);
    texts(&index);
    assert_eq!(alive.load(Relaxed), 0);
}

#[test]
fn an_item_removed_while_it_is_read_outlives_the_reading() {
    let index = Index::new();
    let alive = Arc::<AtomicUsize>::default();
    insert(&index, &alive, "read");
    let is = |word: &Word| word.text == "read";
    let seen = index.with(hash("read"), is, |word| {
        assert!(remove(&index, "read"));
        // The list releases it, and every writer tries to free it.
        assert!(texts(&index).is_empty());
        insert(&index, &alive, "other");
        assert!(index.with(hash("read"), is, |_| ()).is_none());
        (word.text.clone(), alive.load(Relaxed))
    });
    assert_eq!(seen, Some(("read".to_owned(), 2)));
}

#[test]
fn churn_without_a_reader_of_the_list_does_not_pile_up() {
    let index = Index::new();
    let alive = Arc::<AtomicUsize>::default();
    for i in 0..5_000 {
        let text = format!("{i}");
        insert(&index, &alive, &text);
        assert!(remove(&index, &text));
    }
    // A pinned thread of another test may delay freeing; the next call catches up.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        insert(&index, &alive, "last");
        remove(&index, "last");
        let left = alive.load(Relaxed);
        if left <= 200 {
            break;
        }
        assert!(Instant::now() < deadline, "{left} left");
        thread::yield_now();
    }
    let table = index.table.load(SeqCst);
    // SAFETY: nobody else uses this index.
    let slots = unsafe { &*table }.slots.len();
    assert!(slots <= 64, "{slots} slots for no item");
}

#[test]
fn dropping_the_index_drops_every_item_once() {
    let index = Index::new();
    let alive = Arc::<AtomicUsize>::default();
    for i in 0..1000 {
        insert(&index, &alive, &format!("{i}"));
    }
    for i in 0..300 {
        remove(&index, &format!("{i}"));
    }
    texts(&index);
    insert(&index, &alive, "pending");
    drop(index);
    assert_eq!(alive.load(Relaxed), 0);
}

#[test]
fn readers_never_see_a_freed_item_while_writers_churn() {
    let index = Index::new();
    let alive = Arc::<AtomicUsize>::default();
    let names: Vec<String> = (0..40).map(|i| format!("name{i}")).collect();
    let steps = if cfg!(miri) { 50 } else { 20_000 };
    thread::scope(|scope| {
        for seed in 0..2_usize {
            let (index, alive, names) = (&index, &alive, &names);
            scope.spawn(move || {
                for step in 0..steps {
                    let name = &names[(step * 7 + seed * 3) % names.len()];
                    if step % 3 == seed {
                        remove(index, name);
                    } else {
                        assert_eq!(insert(index, alive, name).text, *name);
                    }
                    if step % 101 == 0 {
                        texts(index);
                    }
                }
            });
        }
        for seed in 0..2_usize {
            let (index, names) = (&index, &names);
            scope.spawn(move || {
                for step in 0..steps {
                    let name = &names[(step * 11 + seed) % names.len()];
                    let is = |word: &Word| word.text == *name;
                    // A freed word has an empty text.
                    index.with(hash(name), is, |word| assert_eq!(word.text, *name));
                    if let Some(word) = index.get(hash(name), is) {
                        assert_eq!(word.text, *name);
                    }
                }
            });
        }
    });
    let mut left = texts(&index);
    assert_eq!(left.len(), index.len());
    left.dedup();
    assert_eq!(left.len(), index.len(), "an item is listed twice");
    drop(index);
    assert_eq!(alive.load(Relaxed), 0);
}
