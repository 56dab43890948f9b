//! From a program to Tile IR.

use std::panic::{catch_unwind, set_hook, take_hook, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

use cutile::cutile_compiler::compiler::{CUDATileFunctionCompiler, CUDATileModules};
use cutile::cutile_compiler::cuda_tile_runtime_utils::serialize_tile_ir_bytecode_for_version;
use cutile::cutile_compiler::error::JITError;
use cutile::cutile_compiler::hints::{CompileOptions, DebugInfoLevel};
use cutile_ir::bytecode::BytecodeVersion;
use cutile_ir::capabilities::TargetCapabilities;
use cutile_ir::ir::Module;

use crate::error::{Error, Result};
use crate::finish::finish;
use crate::launch_check::GridCheck;
use crate::plan::Image;
use crate::program::Program;

/// The compiler recurses deeply; a thread's usual stack is too small for it.
const STACK: usize = 256 << 20;
/// The name of the threads in which it runs.
const NAME: &str = "tile compiler";

/// An image's Tile IR.
#[derive(Debug, PartialEq)]
pub(crate) struct Compiled {
    pub(crate) bytecode: Vec<u8>,
    pub(crate) text: String,
    pub(crate) launch_checks: Vec<GridCheck>,
}

/// The module of a program, and those that it uses. It is parsed once in a thread, where its syntax trees have to stay.
struct Parsed {
    name: String,
    modules: CUDATileModules,
}

/// Compile each image, `threads` at a time. Of several errors, the first image's is the one.
pub(crate) fn compile_all(programs: &[Program], images: &[&Image], threads: usize) -> Result<Vec<Compiled>> {
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let done = Mutex::new(Vec::new());
    let work = || {
        let mut parsed: Vec<Option<Parsed>> = programs.iter().map(|_| None).collect();
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
            let thread = thread::Builder::new().name(NAME.to_owned()).stack_size(STACK);
            thread.spawn_scoped(scope, work).expect("the system starts a thread");
        }
    });
    let mut done = done.into_inner().expect("no thread panics while it holds this");
    done.sort_by_key(|&(index, _)| index);
    done.into_iter().map(|(_, result)| result).collect()
}

fn compile(program: &Program, image: &Image, parsed: &mut Option<Parsed>) -> Result<Compiled> {
    // What the compiler cannot do, it says with a panic in places.
    let result = catch_unwind(AssertUnwindSafe(|| {
        let parsed = match parsed {
            Some(parsed) => parsed,
            None => {
                let module = (program.module)();
                let name = module.name().to_owned();
                parsed.insert(Parsed { name, modules: CUDATileModules::from_kernel(module)? })
            }
        };
        compile_in(parsed, program, image)
    }));
    let error = match result {
        Ok(Ok(compiled)) => return Ok(compiled),
        Ok(Err(error)) => error,
        Err(panic) => JITError::Generic(panic_message(&*panic)),
    };
    let what = format!("{} for {}", image.symbol, image.capability);
    Err(match error {
        JITError::Located(message, location) if location.is_known() => {
            Error::in_source(&location, format!("{message} (in {what})"))
        }
        other => Error::in_source(&image.source, format!("{what}: {other}")),
    })
}

fn compile_in(parsed: &Parsed, program: &Program, image: &Image) -> std::result::Result<Compiled, JITError> {
    let target = image.capability.target();
    // By default these follow the profile that cargo compiles cutile in.
    let mut options = CompileOptions::new().debug_info(DebugInfoLevel::None);
    options.num_worker_warps_per_cta = image.warps;
    let newest = TargetCapabilities::new(BytecodeVersion::CURRENT, target.clone());
    let compiler = CUDATileFunctionCompiler::new(
        &parsed.modules,
        &parsed.name,
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
    finish(&mut module, &image.symbol, program.package);
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

/// Bytecode of the oldest version of Tile IR that can express the module: more drivers can read it.
fn bytecode(module: &Module, image: &Image) -> std::result::Result<Vec<u8>, JITError> {
    let fits = |&version: &BytecodeVersion| {
        TargetCapabilities::new(version, image.capability.target()).validate_module(module).is_ok()
    };
    let version = image.capability.versions().find(fits).unwrap_or(BytecodeVersion::CURRENT);
    Ok(serialize_tile_ir_bytecode_for_version(module, version)?.0)
}

/// Let a panic of the compiler be told once, by [`compile_all`]; all others are told as ever.
pub(crate) fn report_panics_as_errors() {
    let usual = take_hook();
    set_hook(Box::new(move |panic| {
        if thread::current().name() != Some(NAME) {
            usual(panic);
        }
    }));
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
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

    fn fixtures() -> String {
        file!().replace("compile", "fixtures")
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
    fn an_instance_can_ask_for_warps() {
        let found = compiled("fill", |capability| {
            let instance = Instance::new().ty("T", Type::F16).int("D", 1).tuned("N", 16);
            vec![if capability.major == 8 { instance.warps(8) } else { instance }]
        });
        let asks: Vec<_> = found.unwrap().iter().map(|image| image.text.contains("num_worker_warps_per_cta")).collect();
        assert_eq!(asks, [true, false]);
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
        let place = format!("{}:{}:", fixtures(), line_of("convert_scalar(size)"));
        assert!(message.starts_with(&place) && message.ends_with(" (in widened for 8.0)"), "{message}");
        assert_eq!(message.lines().count(), 1);
    }

    #[test]
    fn a_panic_of_the_compiler_is_an_error() {
        fn module() -> cutile::cutile_compiler::ast::Module {
            assert!(thread::current().name() != Some(NAME), "not here");
            crate::fixtures::sample::__module_ast_self()
        }
        let programs = [Program { module, ..of("widened", one) }];
        let entries = plan(&programs, &[Capability::new(8, 0)]).unwrap();
        report_panics_as_errors();
        let message = compile_all(&programs, &[&entries[0].images[0]], 1).unwrap_err().to_string();
        let start =
            format!("{}:{}:15: widened for 8.0: the tile compiler panicked: ", fixtures(), line_of("fn widened"));
        assert!(message.starts_with(&start) && message.ends_with("not here"), "{message}");
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
