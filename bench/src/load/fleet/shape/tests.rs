//! Tests of `shape`.

use super::*;

#[test]
fn every_shape_has_the_families_of_its_queries() {
    for shape in [Shape::Fleet, Shape::Service, Shape::Native, Shape::Objects] {
        let page = shape.target(0, 0, 600).prefixes().concat();
        let Families {
            counter,
            by,
            gauge,
            bucket,
            native,
        } = shape.families();
        for part in [counter, by, gauge, bucket, native] {
            assert!(page.contains(part), "{shape:?}: {part}");
        }
    }
}
