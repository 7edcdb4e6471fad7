//! Commands that follow the order of fields.

use std::ffi::CStr;
use std::ops::{Bound, ControlFlow};

use crate::bound::{Edge, above_prefix, edge, span};
use crate::server::{Args, Context, NOT_A_BOUND, Outcome, SYNTAX};
use crate::tree::{Span, Tree};

/// What of each entry is returned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Fields,
    Values,
    /// Fields and values in turn; pairs of them if the client understands that.
    Entries,
}

/// Options of a range.
struct Options {
    reverse: bool,
    offset: i64,
    limit: i64,
    values: bool,
}

impl Options {
    fn read(args: Args<'_>, mut index: usize) -> Result<Self, crate::server::Fault> {
        let mut options = Self { reverse: false, offset: 0, limit: -1, values: true };
        while index < args.len() {
            if args.is(index, "REV") {
                options.reverse = true;
            } else if args.is(index, "NOVALUES") {
                options.values = false;
            } else if args.is(index, "LIMIT") && index + 2 < args.len() {
                options.offset = args.integer(index + 1)?;
                options.limit = args.integer(index + 2)?;
                index += 2;
            } else {
                return Err(SYNTAX);
            }
            index += 1;
        }
        Ok(options)
    }

    /// Sends the entries of a span.
    fn send(&self, context: Context, tree: Option<&Tree>, span: Option<Span<'_>>) {
        // As with ranges of sorted sets: a negative offset is beyond the end, a negative limit is none.
        let (Some(tree), Some(span), Ok(offset)) = (tree, span, usize::try_from(self.offset))
        else {
            context.array(0);
            return;
        };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let shape = if self.values { Shape::Entries } else { Shape::Fields };
        send(context, tree, span, self.reverse, offset, limit, shape);
    }
}

/// Sends the entries of a span but for the first `offset`, at most `limit`.
pub(super) fn send(
    context: Context,
    tree: &Tree,
    span: Span<'_>,
    reverse: bool,
    offset: usize,
    limit: usize,
    shape: Shape,
) {
    if limit == 0 || offset >= tree.len() {
        context.array(0);
        return;
    }
    let pairs = shape == Shape::Entries && context.is_resp3();
    let (mut skip, mut sent) = (offset, 0);
    context.open_array();
    tree.walk(span, reverse, |field, value| {
        if skip > 0 {
            skip -= 1;
            return ControlFlow::Continue(());
        }
        send_entry(context, shape, pairs, field, value);
        sent += 1;
        if sent < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    context.end_array(if shape == Shape::Entries && !pairs { 2 * sent } else { sent });
}

/// Sends an entry, as a pair or in turn.
pub(super) fn send_entry(context: Context, shape: Shape, pairs: bool, field: &[u8], value: &[u8]) {
    if pairs {
        context.array(2);
    }
    if shape != Shape::Values {
        context.string(field);
    }
    if shape != Shape::Fields {
        context.string(value);
    }
}

/// Both bounds of a command.
fn bounds(
    args: Args<'_>,
    low: usize,
    high: usize,
) -> Result<Option<Span<'_>>, crate::server::Fault> {
    let low: Edge<'_> = edge(args.at(low)).ok_or(NOT_A_BOUND)?;
    Ok(span(low, edge(args.at(high)).ok_or(NOT_A_BOUND)?))
}

/// `OMAP.RANGE key min max [REV] [LIMIT offset count] [NOVALUES]`: entries in order. As with `ZRANGE`, the higher bound comes first
/// with `REV`.
pub(super) fn range(context: Context, args: Args<'_>) -> Outcome {
    let options = Options::read(args, 4)?;
    let span = if options.reverse { bounds(args, 3, 2)? } else { bounds(args, 2, 3)? };
    let key = context.read(args, 1)?;
    options.send(context, key.tree(), span);
    Ok(())
}

/// `OMAP.PREFIX key prefix [REV] [LIMIT offset count] [NOVALUES]`: entries in order.
pub(super) fn prefix(context: Context, args: Args<'_>) -> Outcome {
    let options = Options::read(args, 3)?;
    let key = context.read(args, 1)?;
    let above = above_prefix(args.at(2));
    let end = above.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    options.send(context, key.tree(), Some(Span { start: Bound::Included(args.at(2)), end }));
    Ok(())
}

/// `OMAP.SEEK key GE|GT|LE|LT field`: field and value of the nearest entry, or null.
pub(super) fn seek(context: Context, args: Args<'_>) -> Outcome {
    let field = args.at(3);
    let (start, end, reverse) = match () {
        () if args.is(2, "GE") => (Bound::Included(field), Bound::Unbounded, false),
        () if args.is(2, "GT") => (Bound::Excluded(field), Bound::Unbounded, false),
        () if args.is(2, "LE") => (Bound::Unbounded, Bound::Included(field), true),
        () if args.is(2, "LT") => (Bound::Unbounded, Bound::Excluded(field), true),
        () => return Err(SYNTAX),
    };
    let key = context.read(args, 1)?;
    let mut found = false;
    if let Some(tree) = key.tree() {
        tree.walk(Span { start, end }, reverse, |field, value| {
            send_entry(context, Shape::Entries, true, field, value);
            found = true;
            ControlFlow::Break(())
        });
    }
    if !found {
        context.null_array();
    }
    Ok(())
}

/// `OMAP.FIRST key [count]`
pub(super) fn first(context: Context, args: Args<'_>) -> Outcome {
    ends(context, args, false)
}

/// `OMAP.LAST key [count]`
pub(super) fn last(context: Context, args: Args<'_>) -> Outcome {
    ends(context, args, true)
}

/// As with `ZPOPMIN`: one entry as an array of two, as many as are wanted as a range.
fn ends(context: Context, args: Args<'_>, reverse: bool) -> Outcome {
    let count = end_count(args)?;
    let key = context.read(args, 1)?;
    send_ends(context, key.tree(), reverse, count);
    Ok(())
}

fn end_count(args: Args<'_>) -> Result<Option<usize>, crate::server::Fault> {
    match args.len() {
        2 => Ok(None),
        3 => args.count(2).map(Some),
        _ => Err(SYNTAX),
    }
}

fn send_ends(context: Context, tree: Option<&Tree>, reverse: bool, count: Option<usize>) {
    match (tree, count) {
        (None, _) => context.array(0),
        (Some(tree), Some(count)) => {
            send(context, tree, Span::ALL, reverse, 0, count, Shape::Entries);
        }
        (Some(tree), None) => tree.walk(Span::ALL, reverse, |field, value| {
            send_entry(context, Shape::Entries, true, field, value);
            ControlFlow::Break(())
        }),
    }
}

/// `OMAP.POPMIN key [count]`
pub(super) fn popmin(context: Context, args: Args<'_>) -> Outcome {
    pop(context, args, false, c"omap.popmin")
}

/// `OMAP.POPMAX key [count]`
pub(super) fn popmax(context: Context, args: Args<'_>) -> Outcome {
    pop(context, args, true, c"omap.popmax")
}

fn pop(context: Context, args: Args<'_>, reverse: bool, event: &CStr) -> Outcome {
    let count = end_count(args)?;
    let mut key = context.write(args, 1)?;
    send_ends(context, key.tree(), reverse, count);
    let Some(tree) = key.tree_mut() else { return Ok(()) };
    if remove(tree, Span::ALL, reverse, count.unwrap_or(1)) > 0 {
        key.done(event);
    }
    Ok(())
}

/// Entries whose fields are copied at a time before they are removed.
const REMOVE_STEP: usize = 1 << 10;

/// Removes the first entries of a span, or the last ones; returns how many.
fn remove(tree: &mut Tree, span: Span<'_>, reverse: bool, limit: usize) -> usize {
    if span == Span::ALL && limit >= tree.len() {
        // All at once, in a seventh of the time at a million entries.
        let all = tree.len();
        *tree = Tree::new();
        return all;
    }
    let mut removed = 0;
    while removed < limit {
        let fields = tree.fields(span, reverse, REMOVE_STEP.min(limit - removed));
        removed += fields.iter().filter(|field| tree.remove(field)).count();
        if fields.len() < REMOVE_STEP {
            break;
        }
    }
    removed
}

/// `OMAP.COUNT key min max`: how many entries are between the bounds.
pub(super) fn count(context: Context, args: Args<'_>) -> Outcome {
    let span = bounds(args, 2, 3)?;
    let key = context.read(args, 1)?;
    context.count(key.tree().zip(span).map_or(0, |(tree, span)| tree.count(span)));
    Ok(())
}

/// `OMAP.DELRANGE key min max [LIMIT n]`: how many entries were removed, the lowest first.
pub(super) fn delrange(context: Context, args: Args<'_>) -> Outcome {
    let limit = match args.len() {
        4 => usize::MAX,
        6 if args.is(4, "LIMIT") => args.count(5)?,
        _ => return Err(SYNTAX),
    };
    let span = bounds(args, 2, 3)?;
    let mut key = context.write(args, 1)?;
    let removed = match key.tree_mut().zip(span) {
        Some((tree, span)) => remove(tree, span, false, limit),
        None => 0,
    };
    if removed > 0 {
        key.done(c"omap.delrange");
    }
    context.count(removed);
    Ok(())
}
