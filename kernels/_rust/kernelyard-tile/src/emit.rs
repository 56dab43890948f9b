//! The emitter: the program that the builder renders over a device crate.

use std::fs;
use std::io::ErrorKind;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, panic, thread};

use serde::{Serialize, Serializer};

use crate::capability::Capability;
use crate::compile::{compile_all, Compiled};
use crate::error::{Error, Result};
use crate::instance::Value;
use crate::launch_check::GridCheck;
use crate::plan::{plan, Entry, Image};
use crate::program::Program;
use crate::signature::Parameter;

/// How many programs are compiled at once, if the environment says it.
const THREADS: &str = "KERNELYARD_EMITTER_THREADS";

/// Compile every instance of the programs: the whole `main` of an emitter.
///
/// Its arguments are a folder and the CUDA capabilities, as build.toml spells them. On failure it writes one message
/// to stderr.
pub fn emit(programs: Vec<Program>) -> ExitCode {
    // The compiler reads settings of its own, which would make its output depend on the environment.
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("CUTILE_") {
            env::remove_var(name);
        }
    }
    // A panic of the compiler is reported as an error.
    panic::set_hook(Box::new(|_| {}));
    let result = panic::catch_unwind(|| run(&programs, env::args().skip(1).collect()));
    let error = match result {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) => error,
        Err(panic) => Error::new(crate::compile::panic_message(&*panic)),
    };
    eprintln!("{error}");
    ExitCode::FAILURE
}

fn run(programs: &[Program], arguments: Vec<String>) -> Result<()> {
    let [folder, capabilities @ ..] = &arguments[..] else {
        return Err(Error::new("no folder and no capabilities given; give them as in: out 8.0 9.0"));
    };
    let capabilities = capabilities.iter().map(|text| Capability::parse(text)).collect::<Result<Vec<_>>>()?;
    if capabilities.is_empty() {
        return Err(Error::new("no capabilities given; give some after the folder, as in: out 8.0 9.0"));
    }
    let entries = plan(programs, &capabilities)?;
    let images: Vec<&Image> = entries.iter().flat_map(|entry| &entry.images).collect();
    let compiled = compile_all(programs, &images, threads()?)?;
    write_all(Path::new(folder), &entries, compiled)
}

fn threads() -> Result<usize> {
    match env::var(THREADS) {
        Ok(text) => match text.parse::<NonZero<usize>>() {
            Ok(threads) => Ok(threads.get()),
            Err(_) => Err(Error::new(format!("{THREADS}: {text:?} is no number of threads; set it to 1 or more"))),
        },
        Err(_) => Ok(thread::available_parallelism().map_or(1, NonZero::get)),
    }
}

#[derive(Serialize)]
struct Document<'a> {
    entries: Vec<EntryRecord<'a>>,
}

#[derive(Serialize)]
struct EntryRecord<'a> {
    symbol: &'a str,
    function: &'a str,
    #[serde(serialize_with = "as_map")]
    keys: &'a [(String, Value)],
    parameters: &'a [Parameter],
    images: Vec<ImageRecord<'a>>,
}

#[derive(Serialize)]
struct ImageRecord<'a> {
    capability: String,
    #[serde(serialize_with = "as_map")]
    tuned: &'a [(String, i32)],
    file: String,
    text: String,
    launch_checks: Vec<GridCheck>,
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Type(dtype) => serializer.serialize_str(dtype.name()),
            Self::Int(value) => serializer.serialize_i32(*value),
        }
    }
}

/// An object whose members are in the order of the list.
fn as_map<S: Serializer, V: Serialize>(pairs: &&[(String, V)], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

/// Write the images, then the list of them.
fn write_all(folder: &Path, entries: &[Entry], compiled: Vec<Compiled>) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| Error::new(format!("{}: {error}", folder.display())))?;
    let mut compiled = compiled.into_iter();
    let mut records = Vec::new();
    for entry in entries {
        let mut images = Vec::new();
        for (image, compiled) in entry.images.iter().zip(&mut compiled) {
            images.push(write_image(folder, image, compiled)?);
        }
        records.push(EntryRecord {
            symbol: &entry.symbol,
            function: entry.function,
            keys: &entry.keys,
            parameters: &entry.parameters,
            images,
        });
    }
    let text = serde_json::to_string_pretty(&Document { entries: records }).expect("no map has keys but strings");
    write(folder.join("entries.json"), format!("{text}\n").as_bytes())
}

fn write_image<'a>(folder: &Path, image: &'a Image, compiled: Compiled) -> Result<ImageRecord<'a>> {
    let stem = format!("{}.{}", image.symbol, image.capability.target());
    let (file, text) = (format!("{stem}.tileir"), format!("{stem}.mlir"));
    write(folder.join(&file), &compiled.bytecode)?;
    write(folder.join(&text), compiled.text.as_bytes())?;
    let (capability, tuned) = (image.capability.to_string(), &image.tuned[..]);
    Ok(ImageRecord { capability, tuned, file, text, launch_checks: compiled.launch_checks })
}

/// Write a file unless it has these bytes already, so that its time says when they changed.
fn write(path: PathBuf, bytes: &[u8]) -> Result<()> {
    let result = match fs::read(&path) {
        Ok(old) if old == bytes => Ok(()),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => fs::write(&path, bytes),
    };
    result.map_err(|error| Error::new(format!("{}: {error}", path.display())))
}
