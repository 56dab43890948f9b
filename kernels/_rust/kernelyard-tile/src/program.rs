//! A function of a device crate, with its instances.

use cutile::cutile_compiler::ast::Module;

use crate::capability::Capability;
use crate::instance::Instance;
use crate::location::Package;

/// An entry function and the instances of it that are compiled for a capability. [`program!`](crate::program) makes it.
#[derive(Clone, Copy)]
pub struct Program {
    pub(crate) module: fn() -> Module,
    pub(crate) function: &'static str,
    pub(crate) instances: fn(Capability) -> Vec<Instance>,
    pub(crate) package: Package,
}

impl Program {
    #[doc(hidden)]
    pub fn new(
        module: fn() -> Module,
        function: &'static str,
        instances: fn(Capability) -> Vec<Instance>,
        (name, folder): (&'static str, &'static str),
    ) -> Self {
        Self { module, function, instances, package: Package { name, folder } }
    }
}

/// A [`Program`]: `program!(module::function, instances)`, with the module in scope and
/// `fn instances(capability: Capability) -> Vec<Instance>`.
#[macro_export]
macro_rules! program {
    ($module:ident :: $function:ident, $instances:expr $(,)?) => {{
        // rustc says where a function that the module lacks is named.
        #[allow(unused_imports)]
        use $module::$function as _;
        $crate::Program::new(
            $module::__module_ast_self,
            stringify!($function),
            $instances,
            (env!("CARGO_PKG_NAME"), env!("CARGO_MANIFEST_DIR")),
        )
    }};
}
