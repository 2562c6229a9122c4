//! Mutated bodies: no panic, both rounds agree, what is written reads back.

use narthex_expfmt::fuzz;
use narthex_testkit::mutate::Mutator;

const CORPUS: &[&[u8]] = &[
    b"# HELP a Help.\n# TYPE a counter\na{x=\"1\",y=\"2\"} 1\na{x=\"1\",y=\"3\"} 2.5 1700000000000\nb NaN\n",
    b"{\"a.b\",\"c d\"=\"\xc3\xbc\"} +Inf\n# TYPE h histogram\nh_bucket{le=\"0.1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 1e-3\n",
    b"a{q=\"} \",r=\"\\\"\\\\\\n\"} -0\na{q=\"} \",r=\"x\"} 5\n\n#\n# EOF\nlast 4",
];

#[test]
fn mutated_bodies_keep_every_promise() {
    Mutator::new(0x7e87).run(CORPUS, 20_000, fuzz::text);
}
