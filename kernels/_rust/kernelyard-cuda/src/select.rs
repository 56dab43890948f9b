//! The choice of an entry, and what to say where there is none.

use std::collections::BTreeSet;

use kernelyard_rs::tvm_ffi::{Error, RUNTIME_ERROR, TYPE_ERROR, VALUE_ERROR};
use kernelyard_rs::Result;

use crate::{Entry, Value};

/// The index of the entry of a function for these keys, in whatever order.
pub(crate) fn entry(entries: &[Entry], function: &str, keys: &[(&str, Value)]) -> Result<usize> {
    (entries.iter().position(|entry| entry.function == function && has(entry, keys)))
        .ok_or_else(|| none(entries, function, keys))
}

fn has(entry: &Entry, keys: &[(&str, Value)]) -> bool {
    entry.keys.len() == keys.len() && keys.iter().all(|&(name, value)| of(entry, name) == Some(value))
}

fn of(entry: &Entry, name: &str) -> Option<Value> {
    entry.keys.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

#[cold]
fn none(entries: &[Entry], function: &str, keys: &[(&str, Value)]) -> Error {
    let all: Vec<&Entry> = entries.iter().filter(|entry| entry.function == function).collect();
    let Some(first) = all.first() else {
        let names: BTreeSet<&str> = entries.iter().map(|entry| entry.function).collect();
        let what = format!("{function}: is no entry of the image, which has {}", list(names));
        return Error::new(RUNTIME_ERROR, &what, "");
    };
    let given: BTreeSet<&str> = keys.iter().map(|(name, _)| *name).collect();
    let wanted: BTreeSet<&str> = first.keys.iter().map(|(name, _)| *name).collect();
    if given != wanted || keys.len() != first.keys.len() {
        let what = format!("{function}: is chosen by {}, and is given {}", list(wanted), list(given));
        return Error::new(RUNTIME_ERROR, &what, "");
    }
    let dtypes = |entry: &&Entry| keys.iter().all(|&(name, value)| !is_type(value) || of(entry, name) == Some(value));
    let kind = if all.iter().any(dtypes) { VALUE_ERROR } else { TYPE_ERROR };
    let pairs = list(keys.iter().map(|(name, value)| format!("{name} = {value}")));
    Error::new(kind, &format!("{function}: has no instantiation for {pairs}; there is {}", available(&all, keys)), "")
}

fn is_type(value: Value) -> bool {
    matches!(value, Value::Type(_))
}

/// What each key can be; the whole instantiations where no single key is wrong.
fn available(all: &[&Entry], keys: &[(&str, Value)]) -> String {
    let values = |name: &str| all.iter().filter_map(|entry| of(entry, name)).collect::<BTreeSet<Value>>();
    if keys.iter().all(|(name, value)| values(name).contains(value)) {
        return list(all.iter().map(|entry| entry.symbol));
    }
    let each = keys.iter().map(|(name, _)| format!("{name} = {}", list(values(name))));
    each.collect::<Vec<_>>().join("; ")
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let mut items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.pop() {
        None => "nothing".to_owned(),
        Some(last) if items.is_empty() => last,
        Some(last) => format!("{} and {last}", items.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn made(symbol: &'static str, keys: &'static [(&'static str, Value)]) -> Entry {
        Entry { function: "forward", symbol, fatbin: (0, 0), driver: (13, 0), keys, parameters: &[], variants: &[] }
    }

    static ENTRIES: &[Entry] = &[
        made("forward_f16_64", &[("T", Value::Type("f16")), ("D", Value::Int(64))]),
        made("forward_f16_128", &[("T", Value::Type("f16")), ("D", Value::Int(128))]),
        made("forward_bf16_64", &[("T", Value::Type("bf16")), ("D", Value::Int(64))]),
    ];

    fn said(function: &str, keys: &[(&str, Value)]) -> String {
        let error = entry(ENTRIES, function, keys).expect_err("an error");
        format!("{}: {}", error.kind(), error.message())
    }

    #[test]
    fn keys_choose_in_any_order() {
        for keys in [[("T", Value::Type("f16")), ("D", 128.into())], [("D", 128.into()), ("T", Value::Type("f16"))]] {
            assert_eq!(entry(ENTRIES, "forward", &keys).unwrap(), 1);
        }
    }

    #[test]
    fn what_is_missing_decides_the_error() {
        assert_eq!(
            said("forward", &[("T", Value::Type("f32")), ("D", 64.into())]),
            "TypeError: forward: has no instantiation for T = f32 and D = 64; there is T = bf16 and f16; D = 64 and 128"
        );
        assert_eq!(
            said("forward", &[("T", Value::Type("f16")), ("D", 65.into())]),
            "ValueError: forward: has no instantiation for T = f16 and D = 65; there is T = bf16 and f16; D = 64 and 128"
        );
        assert_eq!(
            said("forward", &[("T", Value::Type("bf16")), ("D", 128.into())]),
            "ValueError: forward: has no instantiation for T = bf16 and D = 128; \
             there is forward_f16_64, forward_f16_128 and forward_bf16_64"
        );
    }

    #[test]
    fn a_host_that_asks_wrongly_is_told() {
        assert_eq!(said("backward", &[]), "RuntimeError: backward: is no entry of the image, which has forward");
        assert_eq!(
            said("forward", &[("T", Value::Type("f16"))]),
            "RuntimeError: forward: is chosen by D and T, and is given T"
        );
        let twice = [("T", Value::Type("f16")), ("D", 64.into()), ("D", 64.into())];
        assert_eq!(said("forward", &twice), "RuntimeError: forward: is chosen by D and T, and is given D and T");
    }
}
