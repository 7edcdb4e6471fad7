//! Commands on whole maps.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use super::range::{Shape, send, send_entry};
use crate::allocator::SCARCE_FROM;
use crate::bound::{Edge, edge, span};
use crate::datatype::SAVES_PANIC;
use crate::glob;
use crate::random::{self, Random};
use crate::server::{self, Args, Context, Fault, NOT_AN_INTEGER, OUT_OF_RANGE, Outcome, SYNTAX};
use crate::tree::{Span, Tree};

/// Entries of a step of `OMAP.SCAN` if the caller does not say.
const SCAN_STEP: usize = 10;

/// Most fields of `OMAP.RANDFIELD` with repetitions: nobody else is served meanwhile, and a module is not told that the server has
/// given its client up.
const MOST_DRAWN: i64 = 1 << 20;

/// Bytes for which a test has no memory: more than the server's arguments and what a map takes beside values of a test's.
const SCARCE_BYTES: usize = 1 << 20;

/// `OMAP.LEN key`: the number of entries.
pub(super) fn len(context: Context, args: Args<'_>) -> Outcome {
    let key = context.read(args, 1)?;
    context.count(key.tree().map_or(0, Tree::len));
    Ok(())
}

/// `OMAP.GETALL key`: all entries, a map if the client understands that.
pub(super) fn getall(context: Context, args: Args<'_>) -> Outcome {
    let key = context.read(args, 1)?;
    context.map(key.tree().map_or(0, Tree::len));
    if let Some(tree) = key.tree() {
        tree.walk(Span::ALL, false, |field, value| {
            send_entry(context, Shape::Entries, false, field, value);
            ControlFlow::Continue(())
        });
    }
    Ok(())
}

/// `OMAP.KEYS key`: all fields.
pub(super) fn keys(context: Context, args: Args<'_>) -> Outcome {
    all(context, args, Shape::Fields)
}

/// `OMAP.VALS key`: all values.
pub(super) fn vals(context: Context, args: Args<'_>) -> Outcome {
    all(context, args, Shape::Values)
}

fn all(context: Context, args: Args<'_>, shape: Shape) -> Outcome {
    let key = context.read(args, 1)?;
    match key.tree() {
        Some(tree) => send(context, tree, Span::ALL, false, 0, usize::MAX, shape),
        None => context.array(0),
    }
    Ok(())
}

/// `OMAP.SCAN key cursor [MATCH pattern] [COUNT n]`: the next cursor, and fields and values in turn.
///
/// The first cursor is `0`, and so is the one after the last step. Any other is a bound, that of the last field that was looked
/// at: nothing is kept between steps, and an entry that is there all the time comes once, however the map changes.
pub(super) fn scan(context: Context, args: Args<'_>) -> Outcome {
    let cursor = args.at(2);
    let from = match (cursor, edge(cursor)) {
        (b"0", _) => Edge::Lowest,
        (_, Some(edge)) => edge,
        (_, None) => return Err(Fault::Say(c"ERR invalid cursor")),
    };
    let (mut pattern, mut step) = (None, SCAN_STEP);
    for index in (3..args.len()).step_by(2) {
        if index + 1 == args.len() {
            return Err(SYNTAX);
        } else if args.is(index, "MATCH") {
            pattern = Some(args.at(index + 1)).filter(|pattern| *pattern != b"*");
        } else if args.is(index, "COUNT") {
            step = usize::try_from(args.integer(index + 1)?)
                .ok()
                .filter(|step| *step > 0)
                .ok_or(SYNTAX)?;
        } else {
            return Err(SYNTAX);
        }
    }
    let key = context.read(args, 1)?;
    let (mut looked, mut last, mut more) = (0, Vec::new(), false);
    let mut found: Vec<u8> = Vec::new();
    let mut lengths: Vec<(usize, usize)> = Vec::new();
    if let (Some(tree), Some(span)) = (key.tree(), span(from, Edge::Highest)) {
        tree.walk(span, false, |field, value| {
            if looked == step {
                more = true;
                return ControlFlow::Break(());
            }
            looked += 1;
            last.clear();
            last.extend_from_slice(field);
            if pattern.is_none_or(|pattern| glob::matches(pattern, field)) {
                lengths.push((field.len(), value.len()));
                found.extend_from_slice(field);
                found.extend_from_slice(value);
            }
            ControlFlow::Continue(())
        });
    }
    context.array(2);
    if more {
        last.insert(0, b'(');
        context.string(&last);
    } else {
        context.string(b"0");
    }
    context.array(2 * lengths.len());
    let mut at = found.as_slice();
    for (field, value) in lengths {
        let (head, tail) = at.split_at(field + value);
        send_entry(context, Shape::Entries, false, &head[..field], &head[field..]);
        at = tail;
    }
    Ok(())
}

/// `OMAP.RANDFIELD key [count [WITHVALUES]]`: as `HRANDFIELD`, a field; or that many different ones; or, if the count is negative,
/// as many, each one any.
pub(super) fn randfield(context: Context, args: Args<'_>) -> Outcome {
    let values = match args.len() {
        2 | 3 => false,
        4 if args.is(3, "WITHVALUES") => true,
        _ => return Err(SYNTAX),
    };
    let count = if args.len() > 2 { Some(args.integer(2)?) } else { None };
    // The length of the reply must be a number, too.
    if count.is_some_and(|count| count < -MOST_DRAWN || values && count > i64::MAX / 2) {
        return Err(OUT_OF_RANGE);
    }
    let key = context.read(args, 1)?;
    let mut random = Random::new(server::seed());
    let Some(tree) = key.tree() else {
        if count.is_some() {
            context.array(0);
        } else {
            context.null();
        }
        return Ok(());
    };
    let shape = if values { Shape::Entries } else { Shape::Fields };
    let pairs = values && context.is_resp3();
    let length = |entries: usize| if values && !pairs { 2 * entries } else { entries };
    match count {
        None => {
            random::any(tree, 1, &mut random, |field, _| context.string(field));
        }
        Some(count) if count >= 0 => {
            let count = usize::try_from(count).map_err(|_| NOT_AN_INTEGER)?;
            context.array(length(count.min(tree.len())));
            random::distinct(tree, count, &mut random, |field, value| {
                send_entry(context, shape, pairs, field, value);
            });
        }
        Some(count) => {
            let count = usize::try_from(count.unsigned_abs()).map_err(|_| NOT_AN_INTEGER)?;
            context.array(length(count));
            random::any(tree, count, &mut random, |field, value| {
                send_entry(context, shape, pairs, field, value);
            });
        }
    }
    Ok(())
}

/// `OMAP.INFO key`: how the map is kept, or null.
pub(super) fn info(context: Context, args: Args<'_>) -> Outcome {
    let key = context.read(args, 1)?;
    let Some(tree) = key.tree() else {
        context.null();
        return Ok(());
    };
    context.map(3);
    context.string(b"encoding");
    context.string(tree.encoding().as_bytes());
    context.string(b"entries");
    context.count(tree.len());
    context.string(b"memory-bytes");
    context.count(tree.memory_bytes());
    Ok(())
}

/// `OMAP.TESTPANIC`
pub(super) fn panic(_: Context, _: Args<'_>) -> Outcome {
    panic!("as the test wants it")
}

/// `OMAP.TESTPANICSAVES`
#[expect(clippy::unnecessary_wraps, reason = "a handler is one by its type")]
pub(super) fn panic_saves(context: Context, _: Args<'_>) -> Outcome {
    SAVES_PANIC.store(true, Relaxed);
    context.ok();
    Ok(())
}

/// `OMAP.TESTSCARCE`
#[expect(clippy::unnecessary_wraps, reason = "a handler is one by its type")]
pub(super) fn scarce(context: Context, _: Args<'_>) -> Outcome {
    SCARCE_FROM.store(SCARCE_BYTES, Relaxed);
    context.ok();
    Ok(())
}
