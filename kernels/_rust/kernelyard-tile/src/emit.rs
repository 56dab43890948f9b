//! The emitter: the program that the builder renders over a device crate.

use std::fs;
use std::io::ErrorKind;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, thread};

use serde::{Serialize, Serializer};

use crate::capability::Capability;
use crate::compile::{compile_all, report_panics_as_errors, Compiled};
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
    report_panics_as_errors();
    match run(&programs, env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(programs: &[Program], arguments: Vec<String>) -> Result<()> {
    let [folder, capabilities @ ..] = &arguments[..] else {
        return Err(Error::new("no folder and no capabilities given; give them as in: out 8.0 9.0"));
    };
    let capabilities = capabilities.iter().map(|text| Capability::parse(text)).collect::<Result<Vec<_>>>()?;
    if capabilities.is_empty() {
        return Err(Error::new("no capabilities given; give some after the folder, as in: out 8.0 9.0"));
    }
    if let Some((_, twice)) =
        capabilities.iter().enumerate().find(|(nth, capability)| capabilities[..*nth].contains(capability))
    {
        return Err(Error::new(format!("{twice}: is given twice; leave one out")));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::of;
    use crate::instance::{Instance, Type};

    fn instances(capability: Capability) -> Vec<Instance> {
        let n = if capability.major == 9 { 32 } else { 16 };
        vec![Instance::new().int("D", 64).tuned("N", n).ty("T", Type::BF16)]
    }

    fn emitted(arguments: &[&str]) -> Result<()> {
        run(&[of("fill", instances)], arguments.iter().map(|&argument| argument.to_owned()).collect())
    }

    fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
        let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = paths
            .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap()))
            .collect();
        files.sort();
        files
    }

    #[test]
    fn a_folder_has_the_images_and_their_list() {
        let folder = env::temp_dir().join(format!("kernelyard-tile-{}", std::process::id()));
        let arguments = [folder.to_str().unwrap(), "8.0", "9.0+PTX"];
        emitted(&arguments).unwrap();
        let first = files(&folder);
        let names: Vec<_> = first.iter().map(|(name, _)| &name[..]).collect();
        let stem = "fill_bf16_64.sm_";
        let expected = [".mlir", ".tileir"].map(|end| [format!("{stem}80{end}"), format!("{stem}90{end}")]);
        let [[mlir_80, mlir_90], [tileir_80, tileir_90]] = &expected;
        assert_eq!(names, ["entries.json", mlir_80, tileir_80, mlir_90, tileir_90]);
        let list: serde_json::Value = serde_json::from_slice(&first[0].1).unwrap();
        let image = |capability, n, text, file| {
            let tuned = serde_json::json!({ "N": n });
            serde_json::json!({
                "capability": capability, "tuned": tuned, "file": file, "text": text, "launch_checks": [],
            })
        };
        let entry = serde_json::json!({
            "symbol": "fill_bf16_64", "function": "fill", "keys": {"T": "bf16", "D": 64},
            "parameters": ["pointer", "i32", "f32", "i64"],
            "images": [image("8.0", 16, mlir_80, tileir_80), image("9.0", 32, mlir_90, tileir_90)],
        });
        assert_eq!(list, serde_json::json!({ "entries": [entry] }));
        assert!(String::from_utf8_lossy(&first[0].1).contains("\"keys\": {\n        \"T\""), "in the function's order");
        emitted(&arguments).unwrap();
        assert_eq!(files(&folder), first);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_the_same_is_not_written_again() {
        let path = env::temp_dir().join(format!("kernelyard-tile-{}.txt", std::process::id()));
        write(path.clone(), b"one").unwrap();
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        fs::File::open(&path).unwrap().set_modified(long_ago).unwrap();
        write(path.clone(), b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), long_ago);
        write(path.clone(), b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_folder_and_capabilities_must_be_given() {
        let message = |arguments: &[&str]| emitted(arguments).unwrap_err().to_string();
        assert!(message(&[]).starts_with("no folder and no capabilities given; "));
        assert!(message(&["out"]).starts_with("no capabilities given; "));
        assert!(message(&["out", "7.5"]).starts_with("7.5: Tile IR has no such target; "));
        assert_eq!(message(&["out", "9.0", "9.0+PTX"]), "9.0: is given twice; leave one out");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let message = emitted(&["/dev/null/out", "8.0"]).unwrap_err().to_string();
        assert!(message.starts_with("/dev/null/out: "), "{message}");
    }
}
