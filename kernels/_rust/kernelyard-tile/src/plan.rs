//! From what the author lists to what is compiled.

use std::panic::Location;

use crate::capability::Capability;
use crate::error::{Error, Result};
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
    pub(crate) symbol: String,
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
            let image = Image { capability, program: index, generics, tuned, symbol };
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
    Error::at(At(second), format!("{symbol} is listed twice, first at {}; leave one out", At(first)))
}

fn differs(symbol: &str, with: Capability, without: Capability, place: Place) -> Error {
    let message = format!(
        "{symbol} is listed for {with} and not for {without}; the host chooses by keys, so list the same keys for every \
         capability"
    );
    Error::at(At(place), message)
}

/// The keys, and the values of all generics as cutile takes them, both in the function's order.
fn values_of(
    function: &str,
    signature: &Signature,
    instance: &Instance,
) -> Result<(Vec<(String, Value)>, Vec<String>)> {
    let error = |what: String| Err(Error::at(At(instance.place), format!("{function}: {what}")));
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

/// `file:line`.
struct At(Place);

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.0.file(), self.0.line())
    }
}
