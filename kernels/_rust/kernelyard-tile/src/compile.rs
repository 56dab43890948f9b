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
            "the compiler moved a check of {atom} to the launch, where it is unknown; a variable with a parameter's name \
             does that, so rename it, or check the extent in the function"
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Capability;
    use crate::fixtures::{line_of, of};
    use crate::instance::{Instance, Type};
    use crate::plan::plan;

    fn compiled(function: &'static str, instances: fn(Capability) -> Vec<Instance>) -> Result<Vec<Compiled>> {
        let programs = [of(function, instances)];
        let entries = plan(&programs, &[Capability::new(8, 0), Capability::new(9, 0)])?;
        let images: Vec<_> = entries.iter().flat_map(|entry| &entry.images).collect();
        let several = compile_all(&programs, &images, 3)?;
        assert_eq!(compile_all(&programs, &images, 1)?, several);
        Ok(several)
    }

    fn one(_: Capability) -> Vec<Instance> {
        vec![Instance::new().tuned("N", 16)]
    }

    fn contains(bytes: &[u8], text: &str) -> bool {
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }

    #[test]
    fn each_image_has_its_own_bytecode() {
        let found = compiled("fill", |_| {
            [Type::F32, Type::F16, Type::BF16].map(|t| Instance::new().ty("T", t).int("D", 1).tuned("N", 16)).into()
        })
        .unwrap();
        assert_eq!(found.len(), 6);
        for (image, (symbol, version)) in found.iter().zip([("fill_f32_1", 2), ("fill_f32_1", 3), ("fill_f16_1", 2)]) {
            assert!(image.text.contains(&format!("entry @{symbol}(%0: tile<ptr<")), "{}", image.text);
            assert!(contains(&image.bytecode, symbol));
            assert_eq!(image.bytecode[8..10], [13, version], "the oldest version for the capability");
            assert_eq!(image.launch_checks, []);
        }
    }

    #[test]
    fn nothing_tells_where_the_package_lies() {
        let found = compiled("fill", |_| vec![Instance::new().ty("T", Type::F16).int("D", 1).tuned("N", 16)]).unwrap();
        for image in found {
            assert!(contains(&image.bytecode, "kernelyard-tile/src/fixtures.rs"));
            for path in [env!("CARGO_MANIFEST_DIR"), ".cargo", "/home", "/tmp"] {
                assert!(!contains(&image.bytecode, path) && !image.text.contains(path), "{path}");
            }
        }
    }

    #[test]
    fn an_error_of_the_compiler_is_shown_once_with_its_line() {
        let message = compiled("widened", one).unwrap_err().to_string();
        let place = format!("src/fixtures.rs:{}:", line_of("convert_scalar(size)"));
        assert!(message.contains(&place) && message.ends_with(" (in widened for 8.0)"), "{message}");
        assert_eq!(message.lines().count(), 1);
    }

    #[test]
    fn a_check_that_the_host_cannot_make_is_refused() {
        let message = compiled("shadowed", one).unwrap_err().to_string();
        assert!(
            message.contains("shadowed for 8.0: the compiler moved a check of Dim { param: 0, axis: 0 }"),
            "{message}"
        );
    }
}
