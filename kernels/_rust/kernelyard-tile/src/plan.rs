//! From what the author lists to what is compiled.

use std::panic::Location;

use cutile::cutile_compiler::ast::SourceLocation;

use crate::capability::Capability;
use crate::error::{shown, Error, Result};
use crate::instance::{Instance, Value};
use crate::program::Program;
use crate::signature::{Parameter, Signature};

type Place = &'static Location<'static>;

/// An instance of a program: a kernel of its own, for each capability.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) symbol: String,
    pub(crate) function: &'static str,
    pub(crate) keys: Vec<(String, Value)>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) images: Vec<Image>,
    place: Place,
}

/// An entry for one capability.
#[derive(Debug, PartialEq)]
pub(crate) struct Image {
    pub(crate) capability: Capability,
    /// The program's place in the list.
    pub(crate) program: usize,
    /// The values of the function's generic parameters, in its own order.
    pub(crate) generics: Vec<String>,
    pub(crate) tuned: Vec<(String, i32)>,
    /// How many warps compute a block, where the author says so.
    pub(crate) warps: Option<i32>,
    pub(crate) symbol: String,
    /// Where the function is.
    pub(crate) source: SourceLocation,
}

/// All entries, in the author's order.
pub(crate) fn plan(programs: &[Program], capabilities: &[Capability]) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    for (index, program) in programs.iter().enumerate() {
        for entry in entries_of(index, program, capabilities)? {
            if let Some(first) = entries.iter().find(|first| first.symbol == entry.symbol) {
                return Err(twice(&entry.symbol, first.place, entry.place));
            }
            entries.push(entry);
        }
    }
    Ok(entries)
}

fn entries_of(index: usize, program: &Program, capabilities: &[Capability]) -> Result<Vec<Entry>> {
    let signature = Signature::of(&(program.module)(), program.function)?;
    let mut entries: Vec<Entry> = Vec::new();
    for (nth, &capability) in capabilities.iter().enumerate() {
        for instance in (program.instances)(capability) {
            let (keys, generics) = values_of(program.function, &signature, &instance)?;
            let symbol = symbol_of(program.function, &keys);
            let tuned = instance.tuned.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
            let (warps, source) = (instance.warps, signature.place.clone());
            let image = Image { capability, program: index, generics, tuned, warps, symbol, source };
            match entries.iter_mut().find(|entry| entry.symbol == image.symbol) {
                Some(entry) if entry.has(capability) => return Err(twice(&image.symbol, entry.place, instance.place)),
                Some(entry) => entry.images.push(image),
                None if nth == 0 => entries.push(Entry {
                    symbol: image.symbol.clone(),
                    function: program.function,
                    keys,
                    parameters: signature.parameters.clone(),
                    images: vec![image],
                    place: instance.place,
                }),
                None => return Err(differs(&image.symbol, capability, capabilities[0], instance.place)),
            }
        }
        if entries.is_empty() {
            return Err(Error::new(format!("{}: no instance is listed for {capability}; list one", program.function)));
        }
        if let Some(entry) = entries.iter().find(|entry| !entry.has(capability)) {
            return Err(differs(&entry.symbol, capabilities[0], capability, entry.place));
        }
    }
    Ok(entries)
}

impl Entry {
    fn has(&self, capability: Capability) -> bool {
        self.images.iter().any(|image| image.capability == capability)
    }
}

fn twice(symbol: &str, first: Place, second: Place) -> Error {
    Error::at(second, format!("{symbol} is listed twice, first at {}; leave one out", shown(first)))
}

fn differs(symbol: &str, with: Capability, without: Capability, place: Place) -> Error {
    let message = format!(
        "{symbol} is listed for {with} and not for {without}; the host chooses by keys, so list the same keys for every \
         capability"
    );
    Error::at(place, message)
}

/// By which the host chooses, with their names.
type Keys = Vec<(String, Value)>;

/// The keys, and the values of all generics as cutile takes them, both in the function's order.
fn values_of(function: &str, signature: &Signature, instance: &Instance) -> Result<(Keys, Vec<String>)> {
    let error = |what: String| Err(Error::at(instance.place, format!("{function}: {what}")));
    let given: Vec<_> = instance.values().collect();
    for (nth, (name, _)) in given.iter().enumerate() {
        if !signature.generics.iter().any(|(generic, _)| generic == name) {
            return error(format!("has no generic parameter {name}; it has {}", signature.names()));
        }
        if given[..nth].iter().any(|(before, _)| before == name) {
            return error(format!("{name} is given twice; leave one out"));
        }
    }
    let (mut keys, mut generics) = (Vec::new(), Vec::new());
    for (name, kind) in &signature.generics {
        let Some(&(_, value)) = given.iter().find(|(given, _)| given == name) else {
            return error(format!("{name} is given no value; it is {kind}"));
        };
        if *kind != value.kind() {
            return error(format!("{name} is {kind}, and is given {value}"));
        }
        if instance.keys.iter().any(|(key, _)| key == name) {
            keys.push((name.clone(), value));
        }
        generics.push(value.to_string());
    }
    Ok((keys, generics))
}

/// `forward_f16_64`; a minus sign, which no symbol may have, is an m.
fn symbol_of(function: &str, keys: &[(String, Value)]) -> String {
    let values = keys.iter().map(|(_, value)| format!("_{value}").replace('-', "m"));
    values.fold(function.to_owned(), |symbol, value| symbol + &value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{line_of, of};
    use crate::instance::Type;

    const BOTH: [Capability; 2] = [Capability::new(8, 0), Capability::new(9, 0)];

    fn filled(d: i32, n: i32) -> Instance {
        Instance::new().ty("T", Type::F16).int("D", d).tuned("N", n)
    }

    fn refused(function: &'static str, instances: fn(Capability) -> Vec<Instance>) -> String {
        plan(&[of(function, instances)], &BOTH).unwrap_err().to_string()
    }

    fn here(text: &str) -> String {
        let line = include_str!("plan.rs").lines().position(|line| line.contains(text)).unwrap() + 1;
        format!("{}:{line}: ", file!())
    }

    fn there(text: &str, column: usize) -> String {
        format!("{}:{}:{column}: ", file!().replace("plan", "fixtures"), line_of(text))
    }

    #[test]
    fn an_entry_has_an_image_for_each_capability() {
        let program = of("fill", |capability| {
            let n = if capability.major == 9 { 256 } else { 128 };
            vec![Instance::new().tuned("N", n).int("D", -64).ty("T", Type::BF16), filled(32, n)]
        });
        let entries = plan(&[program], &BOTH).unwrap();
        assert_eq!(entries.iter().map(|entry| &entry.symbol[..]).collect::<Vec<_>>(), ["fill_bf16_m64", "fill_f16_32"]);
        let first = &entries[0];
        assert_eq!(first.keys, [("T".to_owned(), Value::Type(Type::BF16)), ("D".to_owned(), Value::Int(-64))]);
        assert_eq!(first.parameters, [Parameter::Pointer, Parameter::I32, Parameter::F32, Parameter::I64]);
        let image = |n: i32, capability| Image {
            capability,
            program: 0,
            generics: vec!["bf16".to_owned(), "-64".to_owned(), n.to_string()],
            tuned: vec![("N".to_owned(), n)],
            warps: None,
            symbol: "fill_bf16_m64".to_owned(),
            source: first.images[0].source.clone(),
        };
        assert_eq!(first.images, [image(128, BOTH[0]), image(256, BOTH[1])]);
    }

    #[test]
    fn an_instance_is_listed_once() {
        let instances = |_| {
            vec![
                filled(1, 16),
                filled(2, 16),
                Instance::new().tuned("N", 32).int("D", 1).ty("T", Type::F16), // the second
            ]
        };
        let message = refused("fill", instances);
        assert!(message.starts_with(&(here("// the second") + "fill_f16_1 is listed twice, first at ")), "{message}");
        let twice = [of("fill", |_| vec![filled(1, 16)]), of("fill", |_| vec![filled(1, 32)])];
        assert!(plan(&twice, &BOTH).unwrap_err().to_string().contains("fill_f16_1 is listed twice, first at "));
    }

    #[test]
    fn keys_are_the_same_for_every_capability() {
        let more = refused("fill", |capability| match capability.major {
            8 => vec![filled(1, 16)],
            _ => vec![filled(1, 16), filled(2, 16)],
        });
        assert!(more.contains("fill_f16_2 is listed for 9.0 and not for 8.0; the host chooses by keys, so"), "{more}");
        let less = refused("fill", |capability| match capability.major {
            8 => vec![filled(1, 16), filled(2, 16)],
            _ => vec![filled(2, 16)],
        });
        assert!(less.contains("fill_f16_1 is listed for 8.0 and not for 9.0; the host chooses by keys, so"), "{less}");
        assert!(refused("fill", |_| Vec::new()).ends_with("fill: no instance is listed for 8.0; list one"));
    }

    #[test]
    fn each_generic_is_given_one_value_of_its_kind() {
        for (instances, expected) in [
            (
                (|_| vec![filled(1, 2).int("W", 3)]) as fn(Capability) -> Vec<Instance>,
                "fill: has no generic parameter W; it has T, D, N",
            ),
            (|_| vec![filled(1, 2).tuned("D", 3)], "fill: D is given twice; leave one out"),
            (|_| vec![Instance::new().ty("T", Type::F16).int("D", 1)], "fill: N is given no value; it is an i32"),
            (|_| vec![Instance::new().int("T", 1).int("D", 1).tuned("N", 1)], "fill: T is a type, and is given 1"),
            (|_| vec![Instance::new().ty("T", Type::F16).ty("D", Type::F16)], "fill: D is an i32, and is given f16"),
        ] {
            let message = refused("fill", instances);
            assert!(message.starts_with(&format!("{}:", file!())) && message.ends_with(expected), "{message}");
        }
    }

    #[test]
    fn the_function_is_an_entry_of_pointers_and_scalars() {
        let none = |_| Vec::new();
        let there_is = refused("lacking", none);
        assert_eq!(
            there_is,
            there("pub mod sample", 1) + "module sample has no function lacking; name one that it has"
        );
        let expected = there("fn no_entry", 8) + "no_entry: is no entry; put #[cutile::entry()] before it";
        assert_eq!(refused("no_entry", none), expected);
        let expected =
            there("fn of_tensors", 33) + "of_tensors: a parameter must be a raw pointer, i32, i64, f32 or f64;";
        assert!(refused("of_tensors", none).starts_with(&expected), "{}", refused("of_tensors", none));
        let expected = there("fn of_array", 24) + "of_array: S: only types and i32 can be given; make it an i32";
        assert_eq!(refused("of_array", none), expected);
    }
}
