// Functions without a body need a package with assembly. Invariant: there is none.
