//! Traversal of a tree.
//!
//! **Invariant:** a parent is visited before its children, and children in evaluation order.

use super::Expr;

impl Expr {
    /// Returns the direct children; a range selector's inner selector is part of the node itself.
    #[must_use]
    pub fn children(&self) -> Vec<&Self> {
        match self {
            Self::Aggregate(e) => std::iter::once(&e.expr).chain(&e.param).collect(),
            Self::Binary(e) => vec![&e.lhs, &e.rhs],
            Self::Call(e) => e.args.iter().collect(),
            Self::Paren(e) => vec![&e.expr],
            Self::Subquery(e) => vec![&e.expr],
            Self::Unary(e) => vec![&e.expr],
            Self::Matrix(_) | Self::Number(_) | Self::String(_) | Self::Vector(_) => Vec::new(),
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
        for child in self.children() {
            child.walk(visit);
        }
    }

    /// Returns the number of nodes on the longest path to a leaf.
    #[must_use]
    pub fn depth(&self) -> u32 {
        let of_all = |all: &mut dyn Iterator<Item = &Self>| all.map(Self::depth).max();
        // For each evaluation of a rule: without a list of children.
        1 + match self {
            Self::Aggregate(e) => of_all(&mut std::iter::once(&e.expr).chain(&e.param)),
            Self::Binary(e) => of_all(&mut [&e.lhs, &e.rhs].into_iter()),
            Self::Call(e) => of_all(&mut e.args.iter()),
            Self::Paren(e) => Some(e.expr.depth()),
            Self::Subquery(e) => Some(e.expr.depth()),
            Self::Unary(e) => Some(e.expr.depth()),
            Self::Matrix(_) | Self::Number(_) | Self::String(_) | Self::Vector(_) => None,
        }
        .unwrap_or(0)
    }
}
