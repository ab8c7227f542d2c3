//! Syntax trees with owners in other crates.
//!
//! The compiler makes the code that drops or copies a type once more in each crate that does so.
//! The structs of a syntax tree have 350 kB of such code. So other crates own a tree only as
//! [`Tree`], which is made here, and dropped by way of its trait object.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use niwaki_env::stack::{self, Deep};
use pg_query::NodeEnum;
use pg_query::protobuf::{self, CommonTableExpr, CreateTableAsStmt, ExplainStmt, Node, TypeName};

/// Window options of `OVER ()`, as the grammar sets them.
pub const FRAME_DEFAULTS: i32 = 0x0_0422;

/// The owner of a tree, which knows how to drop it.
trait Holds<T>: Send + Sync {
    fn root(&self) -> &T;
    fn bytes(&self) -> usize;
}

impl<T: Send + Sync> Holds<T> for Deep<T> {
    fn root(&self) -> &T {
        self
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }
}

/// A syntax tree, or a part of one, that several owners share. It knows the stack that reading it
/// takes.
pub struct Tree<T = NodeEnum>(Arc<dyn Holds<T>>);

/// The tree of a statement.
pub type SyntaxTree = Tree<NodeEnum>;

impl<T> Tree<T> {
    /// Returns the stack, in bytes, that reading the tree takes.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

impl<T> Deref for Tree<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.root()
    }
}

impl<T> Clone for Tree<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Tree<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl PartialEq for Tree<NodeEnum> {
    #[inline(never)]
    fn eq(&self, other: &Self) -> bool {
        stack::room(self.bytes(), || **self == **other)
    }
}

impl PartialEq for Tree<TypeName> {
    #[inline(never)]
    fn eq(&self, other: &Self) -> bool {
        stack::room(self.bytes(), || **self == **other)
    }
}

impl Tree<NodeEnum> {
    /// Keeps a tree. `bytes` is the stack, in bytes, that reading it takes.
    pub(crate) fn new(node: NodeEnum, bytes: usize) -> Self {
        Self(Arc::new(Deep::new(node, bytes)))
    }

    /// Returns the tree of EXPLAIN of this query. `explain` is an EXPLAIN of EXECUTE, or of CREATE
    /// TABLE AS EXECUTE.
    #[inline(never)]
    #[must_use]
    pub fn explained(&self, explain: &ExplainStmt) -> Self {
        let bytes = self.bytes();
        let node = stack::room(bytes, || NodeEnum::clone(self));
        let mut query = Some(Box::new(Node { node: Some(node) }));
        let explained = explain.query.as_ref().and_then(|query| query.node.as_ref());
        if let Some(NodeEnum::CreateTableAsStmt(create)) = explained {
            let create = CreateTableAsStmt { query, ..(**create).clone() };
            let node = Some(NodeEnum::CreateTableAsStmt(Box::new(create)));
            query = Some(Box::new(Node { node }));
        }
        let explain = ExplainStmt { query, options: explain.options.clone() };
        Self::new(NodeEnum::ExplainStmt(Box::new(explain)), bytes)
    }
}

impl Tree<TypeName> {
    /// Copies the name of a type.
    #[inline(never)]
    pub(crate) fn of_type(name: &TypeName) -> Self {
        Self(Arc::new(Deep::new(name.clone(), 0)))
    }
}

impl Tree<CommonTableExpr> {
    /// Copies a WITH query. The caller has the stack for it.
    #[inline(never)]
    pub fn of_with_query(query: &CommonTableExpr) -> Self {
        Self(Arc::new(Deep::new(query.clone(), 0)))
    }
}

impl Tree<protobuf::SelectStmt> {
    /// Makes the query behind `unnest(a, b)`: a target for each array, with a column of row numbers
    /// for WITH ORDINALITY. The caller has the stack for copies of the arrays.
    #[inline(never)]
    pub fn of_unnest(call: &protobuf::FuncCall, ordinality: bool) -> Self {
        let target = |argument: &Node| {
            let one = protobuf::FuncCall { args: vec![argument.clone()], ..call.clone() };
            let call = Node { node: Some(NodeEnum::FuncCall(Box::new(one))) };
            let target = protobuf::ResTarget {
                name: "unnest".to_owned(),
                val: Some(Box::new(call)),
                ..protobuf::ResTarget::default()
            };
            Node { node: Some(NodeEnum::ResTarget(Box::new(target))) }
        };
        let select = protobuf::SelectStmt {
            target_list: call.args.iter().map(target).collect(),
            op: protobuf::SetOperation::SetopNone.into(),
            limit_option: protobuf::LimitOption::Default.into(),
            ..protobuf::SelectStmt::default()
        };
        let select = if ordinality { with_row_numbers(select, call.args.len()) } else { select };
        Self(Arc::new(Deep::new(select, 0)))
    }
}

/// Numbers the rows of `arrays`, a query of `count` columns called `unnest`. The arrays are
/// computed once: their expressions may be volatile.
fn with_row_numbers(arrays: protobuf::SelectStmt, count: usize) -> protobuf::SelectStmt {
    let node = |node: NodeEnum| Node { node: Some(node) };
    let string = |text: &str| node(NodeEnum::String(protobuf::String { sval: text.to_owned() }));
    let target = |name: &str, value: NodeEnum| {
        node(NodeEnum::ResTarget(Box::new(protobuf::ResTarget {
            name: name.to_owned(),
            val: Some(Box::new(node(value))),
            ..protobuf::ResTarget::default()
        })))
    };
    let names: Vec<String> = (1..=count).map(|number| format!("column{number}")).collect();
    let column = |name: &String| {
        let fields = vec![string(name)];
        target("unnest", NodeEnum::ColumnRef(protobuf::ColumnRef { fields, location: -1 }))
    };
    let over = protobuf::WindowDef {
        frame_options: FRAME_DEFAULTS,
        location: -1,
        ..protobuf::WindowDef::default()
    };
    let number = protobuf::FuncCall {
        funcname: vec![string("pg_catalog"), string("row_number")],
        over: Some(Box::new(over)),
        location: -1,
        ..protobuf::FuncCall::default()
    };
    let number = target("ordinality", NodeEnum::FuncCall(Box::new(number)));
    let from = protobuf::RangeSubselect {
        lateral: false,
        subquery: Some(Box::new(node(NodeEnum::SelectStmt(Box::new(arrays))))),
        alias: Some(protobuf::Alias {
            aliasname: "unnest".to_owned(),
            colnames: names.iter().map(|name| string(name)).collect(),
        }),
    };
    protobuf::SelectStmt {
        target_list: names.iter().map(column).chain([number]).collect(),
        from_clause: vec![node(NodeEnum::RangeSubselect(Box::new(from)))],
        op: protobuf::SetOperation::SetopNone.into(),
        limit_option: protobuf::LimitOption::Default.into(),
        ..protobuf::SelectStmt::default()
    }
}
