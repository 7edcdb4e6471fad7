//! Commands on single entries, and on lists of them.

use crate::guess;
use crate::server::{Args, Context, Fault, Outcome, SYNTAX};

/// `OMAP.SET key field value [field value ...]`: how many fields are new.
pub(super) fn set(context: Context, args: Args<'_>) -> Outcome {
    if args.len() % 2 == 1 {
        return Err(Fault::Arity);
    }
    let (field, value) = args.entry(2)?;
    for index in (4..args.len()).step_by(2) {
        args.entry(index)?;
    }
    guess::ask_to_set(field);
    let mut key = context.write(args, 1)?;
    let tree = key.make();
    let mut new = usize::from(tree.set(field, value)?);
    for index in (4..args.len()).step_by(2) {
        let (field, value) = args.entry(index)?;
        match tree.set(field, value) {
            Ok(is_new) => new += usize::from(is_new),
            Err(no_memory) => {
                // What was set is set, and others are told of that alone: they may have memory for the rest.
                key.done_in_part(c"omap.set", args, index);
                return Err(no_memory.into());
            }
        }
    }
    key.done_adding(c"omap.set");
    context.count(new);
    Ok(())
}

/// `OMAP.PUT key field value [NX|XX] [GET]`: `OK`, or null if the condition does not hold; with `GET` the value before, or null.
pub(super) fn put(context: Context, args: Args<'_>) -> Outcome {
    let (mut absent, mut present, mut get) = (false, false, false);
    for index in 4..args.len() {
        match () {
            () if args.is(index, "NX") => absent = true,
            () if args.is(index, "XX") => present = true,
            () if args.is(index, "GET") => get = true,
            () => return Err(SYNTAX),
        }
    }
    if absent && present {
        return Err(SYNTAX);
    }
    let (field, value) = args.entry(2)?;
    let mut key = context.write(args, 1)?;
    let old = key.get(field, |old| old.map(<[u8]>::to_vec));
    let holds = if old.is_some() { !absent } else { !present };
    if holds {
        key.make().set(field, value)?;
        key.done_adding(c"omap.set");
    }
    match (get, holds) {
        (true, _) => context.optional(old.as_deref()),
        (false, true) => context.ok(),
        (false, false) => context.null(),
    }
    Ok(())
}

/// `OMAP.SETNX key field value`: 1 if it was set, 0 if there is such a field.
pub(super) fn setnx(context: Context, args: Args<'_>) -> Outcome {
    let (field, value) = args.entry(2)?;
    let mut key = context.write(args, 1)?;
    let absent = key.get(field, |value| value.is_none());
    if absent {
        key.make().set(field, value)?;
        key.done_adding(c"omap.set");
    }
    context.integer(i64::from(absent));
    Ok(())
}

/// `OMAP.GET key field`: the value, or null.
#[inline(always)]
pub(super) fn get(context: Context, args: Args<'_>) -> Outcome {
    context.read_one(args, (1, 2), |value| context.optional(value))
}

/// `OMAP.MGET key field [field ...]`: the values, or null.
pub(super) fn mget(context: Context, args: Args<'_>) -> Outcome {
    let key = context.read(args, 1)?;
    context.array(args.len() - 2);
    match key.tree() {
        Some(tree) => tree.get_each(args.from(2), |value| context.optional(value)),
        None => args.from(2).for_each(|_| context.null()),
    }
    Ok(())
}

/// `OMAP.EXISTS key field`: 1 or 0.
pub(super) fn exists(context: Context, args: Args<'_>) -> Outcome {
    let key = context.read(args, 1)?;
    let found = key.tree().is_some_and(|tree| tree.has(args.at(2)));
    context.integer(i64::from(found));
    Ok(())
}

/// `OMAP.MEXISTS key field [field ...]`: for each 1 or 0.
pub(super) fn mexists(context: Context, args: Args<'_>) -> Outcome {
    let key = context.read(args, 1)?;
    context.array(args.len() - 2);
    match key.tree() {
        Some(tree) => {
            tree.get_each(args.from(2), |value| context.integer(i64::from(value.is_some())));
        }
        None => args.from(2).for_each(|_| context.integer(0)),
    }
    Ok(())
}

/// `OMAP.STRLEN key field`: the length of the value, 0 if there is none.
pub(super) fn strlen(context: Context, args: Args<'_>) -> Outcome {
    let key = context.read(args, 1)?;
    context.count(key.get(args.at(2), |value| value.map_or(0, <[u8]>::len)));
    Ok(())
}

/// `OMAP.DEL key field [field ...]`: how many entries there were.
pub(super) fn del(context: Context, args: Args<'_>) -> Outcome {
    let mut key = context.write(args, 1)?;
    let removed =
        key.tree_mut().map_or(0, |tree| args.from(2).filter(|field| tree.remove(field)).count());
    if removed > 0 {
        key.done(c"omap.del");
    }
    context.count(removed);
    Ok(())
}

/// `OMAP.GETDEL key field`: the value that was removed, or null.
pub(super) fn getdel(context: Context, args: Args<'_>) -> Outcome {
    let field = args.at(2);
    let mut key = context.write(args, 1)?;
    let Some(tree) = key.tree_mut() else {
        context.null();
        return Ok(());
    };
    tree.get(field, |value| context.optional(value));
    if tree.remove(field) {
        key.done(c"omap.del");
    }
    Ok(())
}
