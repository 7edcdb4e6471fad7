//! Values that are numbers.

use crate::number::{Decimal, integer};
use crate::server::{Args, Context, Fault, Outcome};

/// `OMAP.INCRBY key field increment`: the sum. A field that does not exist counts as 0.
pub(super) fn by(context: Context, args: Args<'_>) -> Outcome {
    args.entry(2)?;
    let (field, more) = (args.at(2), args.integer(3)?);
    let mut key = context.write(args, 1)?;
    let before = key.get(field, |value| value.map_or(Some(0), integer));
    let before = before.ok_or(Fault::Say(c"ERR map value is not an integer"))?;
    let sum =
        before.checked_add(more).ok_or(Fault::Say(c"ERR increment or decrement would overflow"))?;
    key.make().set(field, sum.to_string().as_bytes())?;
    key.done(c"omap.incrby");
    context.integer(sum);
    Ok(())
}

/// `OMAP.INCRBYFLOAT key field increment`: the sum as a string. Replicas get the sum, so that no rounding differs.
pub(super) fn by_float(context: Context, args: Args<'_>) -> Outcome {
    args.entry(2)?;
    let field = args.at(2);
    let more = Decimal::read(args.at(3)).ok_or(Fault::Say(c"ERR value is not a valid float"))?;
    if !more.is_finite() {
        return Err(Fault::Say(c"ERR value is NaN or Infinity"));
    }
    let mut key = context.write(args, 1)?;
    let before = key.get(field, |value| value.map_or(Some(Decimal::Fixed(0)), Decimal::read));
    let before = before.ok_or(Fault::Say(c"ERR map value is not a float"))?;
    let sum = before
        .plus(more)
        .ok_or(Fault::Say(c"ERR increment would produce NaN or Infinity"))?
        .write();
    key.make().set(field, sum.as_bytes())?;
    context.string(sum.as_bytes());
    key.done_as_set(c"omap.incrbyfloat", field, sum.as_bytes());
    Ok(())
}
