//! A client of a cluster, and a pool that it has open.

#![allow(
    unsafe_code,
    reason = "the library's functions are called with handles that it gave"
)]

use crate::address::Address;
use crate::error::{Error, checked};
use crate::library::{Functions, Handle, functions};
use std::ffi::{CStr, CString};
use std::ptr;

/// A client that is connected to a cluster. Dropping it disconnects.
#[derive(Debug)]
struct Cluster {
    functions: &'static Functions,
    handle: Handle,
}

/// A pool, or a namespace of one.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) functions: &'static Functions,
    pub(crate) handle: Handle,
    cluster: Cluster,
}

impl Cluster {
    /// Connects. Blocks for as long as the cluster takes.
    fn connect(address: &Address<'_>) -> Result<Self, Error> {
        let functions = functions().map_err(Error::Library)?;
        let conf = address
            .conf
            .map(|path| CString::new(path.as_os_str().as_encoded_bytes()));
        let conf = conf.transpose()?;
        let user = CString::new(address.user.unwrap_or("admin"))?;
        let mut handle = ptr::null_mut();
        // SAFETY: the text ends with a zero byte and outlives the call.
        let created = unsafe { (functions.rados_create)(&raw mut handle, user.as_ptr()) };
        checked("a client", created)?;
        let cluster = Self { functions, handle };
        let conf = conf.as_ref().map_or(ptr::null(), |conf| conf.as_ptr());
        // SAFETY: as above; without a path the library looks at its usual places.
        let read = unsafe { (functions.rados_conf_read_file)(handle, conf) };
        checked("the cluster's configuration", read)?;
        // Hearth is the cache: one in memory would answer for writes that the cluster does not have.
        cluster.set(c"rbd_cache", c"false")?;
        // SAFETY: the client was created and is not connected.
        checked("the cluster", unsafe { (functions.rados_connect)(handle) })?;
        Ok(cluster)
    }

    fn set(&self, option: &CStr, value: &CStr) -> Result<(), Error> {
        // SAFETY: both texts end with a zero byte.
        let set = unsafe {
            (self.functions.rados_conf_set)(self.handle, option.as_ptr(), value.as_ptr())
        };
        checked("an option of the client", set).map(drop)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: nothing of the client is used afterwards.
        unsafe { (self.functions.rados_shutdown)(self.handle) };
    }
}

impl Pool {
    /// Connects to the cluster and opens the pool. Blocks for as long as the cluster takes.
    pub(crate) fn open(address: &Address<'_>) -> Result<Self, Error> {
        let (name, namespace) = (
            CString::new(address.pool)?,
            CString::new(address.namespace)?,
        );
        let cluster = Cluster::connect(address)?;
        let functions = cluster.functions;
        let mut handle = ptr::null_mut();
        // SAFETY: the text ends with a zero byte, and the client is connected.
        let opened = unsafe {
            (functions.rados_ioctx_create)(cluster.handle, name.as_ptr(), &raw mut handle)
        };
        checked("the pool", opened)?;
        // SAFETY: the text ends with a zero byte, and the pool is open.
        unsafe { (functions.rados_ioctx_set_namespace)(handle, namespace.as_ptr()) };
        Ok(Self {
            functions,
            handle,
            cluster,
        })
    }

    /// The number that the cluster gave this client's connection.
    pub(crate) fn client(&self) -> u64 {
        // SAFETY: the client is connected.
        unsafe { (self.functions.rados_get_instance_id)(self.cluster.handle) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the images of the pool are closed, and it is not used afterwards.
        unsafe { (self.functions.rados_ioctx_destroy)(self.handle) };
    }
}
