//! Traversal of a tree.
//!
//! **Invariant:** a parent is visited before its children, and children in evaluation order.

use super::Expr;

impl Expr {
    /// Calls `visit` for the direct children; a range selector's inner selector is part of the node itself.
    fn each_child(&self, visit: &mut dyn FnMut(&Self)) {
        match self {
            Self::Aggregate(e) => std::iter::once(&e.expr).chain(&e.param).for_each(visit),
            Self::Binary(e) => [&e.lhs, &e.rhs].into_iter().for_each(visit),
            Self::Call(e) => e.args.iter().for_each(visit),
            Self::Paren(e) => visit(&e.expr),
            Self::Subquery(e) => visit(&e.expr),
            Self::Unary(e) => visit(&e.expr),
            Self::Matrix(_) | Self::Number(_) | Self::String(_) | Self::Vector(_) => {}
        }
    }

    /// Returns the direct children, mutably.
    pub fn children_mut(&mut self) -> Vec<&mut Self> {
        match self {
            Self::Aggregate(e) => std::iter::once(&mut e.expr).chain(&mut e.param).collect(),
            Self::Binary(e) => vec![&mut e.lhs, &mut e.rhs],
            Self::Call(e) => e.args.iter_mut().collect(),
            Self::Paren(e) => vec![&mut e.expr],
            Self::Subquery(e) => vec![&mut e.expr],
            Self::Unary(e) => vec![&mut e.expr],
            Self::Matrix(_) | Self::Number(_) | Self::String(_) | Self::Vector(_) => Vec::new(),
        }
    }

    /// Calls `visit` for this node and all its descendants.
    pub fn walk(&self, visit: &mut dyn FnMut(&Self)) {
        visit(self);
        self.each_child(&mut |child| child.walk(visit));
    }

    /// Reports whether `holds` is true of this node and all its descendants.
    pub(crate) fn all(&self, holds: &dyn Fn(&Self) -> bool) -> bool {
        let mut all = holds(self);
        self.each_child(&mut |child| all = all && child.all(holds));
        all
    }

    /// Returns the number of nodes on the longest path to a leaf.
    #[must_use]
    pub fn depth(&self) -> u32 {
        let mut deepest = 0;
        self.each_child(&mut |child| deepest = deepest.max(child.depth()));
        deepest + 1
    }
}
