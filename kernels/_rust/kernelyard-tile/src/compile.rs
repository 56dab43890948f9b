//! From a program to Tile IR.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

use cutile::cutile_compiler::compiler::{CUDATileFunctionCompiler, CUDATileModules};
use cutile::cutile_compiler::cuda_tile_runtime_utils::serialize_tile_ir_bytecode_for_version;
use cutile::cutile_compiler::error::JITError;
use cutile::cutile_compiler::hints::{CompileOptions, DebugInfoLevel};
use cutile_ir::bytecode::BytecodeVersion;
use cutile_ir::capabilities::TargetCapabilities;
use cutile_ir::ir::{Attribute, Module};

use crate::error::{Error, Result};
use crate::launch_check::GridCheck;
use crate::plan::Image;
use crate::program::Program;

/// The compiler recurses deeply; a thread's usual stack is too small for it.
const STACK: usize = 256 << 20;

/// An image's Tile IR.
#[derive(Debug, PartialEq)]
pub(crate) struct Compiled {
    pub(crate) bytecode: Vec<u8>,
    pub(crate) text: String,
    pub(crate) launch_checks: Vec<GridCheck>,
}

/// Compile each image, `threads` at a time. Of several errors, the first image's is the one.
pub(crate) fn compile_all(programs: &[Program], images: &[&Image], threads: usize) -> Result<Vec<Compiled>> {
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let done = Mutex::new(Vec::new());
    let work = || {
        // A module's source is parsed once in a thread, where its syntax trees have to stay.
        let mut parsed: Vec<Option<CUDATileModules>> = programs.iter().map(|_| None).collect();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= images.len() || index > failed.load(Ordering::Relaxed) {
                return;
            }
            let image = images[index];
            let result = compile(&programs[image.program], image, &mut parsed[image.program]);
            if result.is_err() {
                failed.fetch_min(index, Ordering::Relaxed);
            }
            done.lock().expect("no thread panics while it holds this").push((index, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.min(images.len()) {
            thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work).expect("the system starts a thread");
        }
    });
    let mut done = done.into_inner().expect("no thread panics while it holds this");
    done.sort_by_key(|&(index, _)| index);
    done.into_iter().map(|(_, result)| result).collect()
}

fn compile(program: &Program, image: &Image, parsed: &mut Option<CUDATileModules>) -> Result<Compiled> {
    // What the compiler cannot do, it says with a panic in places.
    let result = catch_unwind(AssertUnwindSafe(|| {
        let modules = match parsed {
            Some(modules) => modules,
            None => parsed.insert(CUDATileModules::from_kernel((program.module)())?),
        };
        compile_in(modules, program, image)
    }));
    let error = match result {
        Ok(Ok(compiled)) => return Ok(compiled),
        Ok(Err(error)) => error,
        Err(panic) => JITError::Generic(panic_message(&*panic)),
    };
    let what = format!("{} for {}", image.symbol, image.capability);
    Err(match error {
        JITError::Located(message, location) if location.is_known() => {
            Error::at(location, format!("{message} (in {what})"))
        }
        other => Error::at((program.module)().span_base().module_location(), format!("{what}: {other}")),
    })
}

fn compile_in(modules: &CUDATileModules, program: &Program, image: &Image) -> std::result::Result<Compiled, JITError> {
    let module = (program.module)();
    let target = image.capability.target();
    // By default these follow the profile that cargo compiles cutile in.
    let options = CompileOptions::new().debug_info(DebugInfoLevel::None);
    let newest = TargetCapabilities::new(BytecodeVersion::CURRENT, target.clone());
    let compiler = CUDATileFunctionCompiler::new(
        modules,
        module.name(),
        program.function,
        &image.generics,
        &[],
        &[],
        &[],
        None,
        target,
        &options,
    )?
    .with_target_capabilities(newest)?;
    let mut module = compiler.compile()?;
    rename(&mut module, &image.symbol);
    program.package.relocate(&mut module);
    let launch_checks = compiler.get_validator().launch_checks;
    let launch_checks = launch_checks.iter().map(GridCheck::new).collect::<std::result::Result<_, _>>();
    let launch_checks = launch_checks.map_err(|atom| {
        JITError::Generic(format!(
            "the compiler moved a check of {atom} to the launch, where it is unknown; check it in the function, or \
             make the extent a constant"
        ))
    })?;
    Ok(Compiled { bytecode: bytecode(&module, image)?, text: module.to_mlir_text(), launch_checks })
}

fn rename(module: &mut Module, symbol: &str) {
    for id in module.functions.clone() {
        for (name, value) in &mut module.op_mut(id).attributes {
            if name == "sym_name" {
                *value = Attribute::String(symbol.to_owned());
            }
        }
    }
}

/// Bytecode of the oldest version of Tile IR that can express the module: more drivers can read it.
fn bytecode(module: &Module, image: &Image) -> std::result::Result<Vec<u8>, JITError> {
    let fits = |&version: &BytecodeVersion| {
        TargetCapabilities::new(version, image.capability.target()).validate_module(module).is_ok()
    };
    let version = image.capability.versions().find(fits).unwrap_or(BytecodeVersion::CURRENT);
    Ok(serialize_tile_ir_bytecode_for_version(module, version)?.0)
}

pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the tile compiler panicked: {}", text.unwrap_or("it does not say why"))
}
