"""The Vulkan instance, the validation layer, and the list of devices."""
from __future__ import annotations

from hierarchos.vulkan.errors import VulkanError
from hierarchos.vulkan.info import DeviceInfo
from hierarchos.vulkan.loader import api, create, enumerate_structs, names, struct, text

LAYER = "VK_LAYER_KHRONOS_validation"


def validation_available() -> bool:
    """Whether the Khronos validation layer is installed."""
    return LAYER in layer_names()


def layer_names() -> set[str]:
    return {text(layer.layerName) for layer in enumerate_structs("vkEnumerateInstanceLayerProperties", "VkLayerProperties")}


def extension_names(layer: str | None = None) -> set[str]:
    """Instance extensions of the drivers, or those that a layer adds."""
    ffi = api().ffi
    which = ffi.new("char[]", layer.encode()) if layer else ffi.NULL
    found = enumerate_structs("vkEnumerateInstanceExtensionProperties", "VkExtensionProperties", which)
    return {text(extension.extensionName) for extension in found}


def list_devices() -> list[DeviceInfo]:
    """Every Vulkan device of this machine, usable or not. Raises NoVulkan when there is no loader."""
    with Instance() as instance:
        return instance.devices()


class Instance:
    """A Vulkan instance; with `validation=True` its messages are collected in `messages`."""

    def __init__(self, validation: bool = False):
        self.messages: list[str] = []
        self.handle = self._messenger = None
        extensions, layers, flags = [], [], 0
        present = extension_names()
        if validation:
            if not validation_available():
                raise VulkanError(f"{LAYER} is not installed; Debian, Ubuntu: apt install vulkan-validationlayers")
            layers.append(LAYER)
            extensions.append("VK_EXT_debug_utils")
        if "VK_KHR_portability_enumeration" in present:          # MoltenVK is listed only when asked for
            extensions.append("VK_KHR_portability_enumeration")
            flags = 1
        self._messenger_info = self._describe_messenger() if validation else api().ffi.NULL
        self.handle = self._create(extensions, layers, flags)
        if validation:
            self._messenger = self._start_messenger()

    def _create(self, extensions: list[str], layers: list[str], flags: int):
        vk = api()
        name = vk.ffi.new("char[]", b"hierarchos")
        application = struct("VkApplicationInfo", vk.VK_STRUCTURE_TYPE_APPLICATION_INFO, pApplicationName=name, pEngineName=name,
                             apiVersion=vk.VK_MAKE_VERSION(1, 3, 0))
        info = struct("VkInstanceCreateInfo", vk.VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, pApplicationInfo=application,
                      pNext=self._messenger_info, flags=flags,
                      enabledExtensionCount=len(extensions), ppEnabledExtensionNames=names(extensions),
                      enabledLayerCount=len(layers), ppEnabledLayerNames=names(layers))
        return create("vkCreateInstance", "VkInstance", info)

    def _describe_messenger(self):
        vk = api()

        @vk.ffi.callback("PFN_vkDebugUtilsMessengerCallbackEXT")
        def collect(severity, kinds, data, user):
            self.messages.append(text(data.pMessage))
            return 0
        return struct("VkDebugUtilsMessengerCreateInfoEXT", vk.VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
                      messageSeverity=0x1100, messageType=0x6, pfnUserCallback=collect)   # warnings and errors; validation and performance

    def _start_messenger(self):
        return self._extension_call("vkCreateDebugUtilsMessengerEXT", self.handle, self._messenger_info,
                                    out="VkDebugUtilsMessengerEXT")

    def _extension_call(self, name: str, *arguments, out: str | None = None):
        """Calls an instance function that the loader library does not export."""
        vk = api()
        function = vk.ffi.cast(f"PFN_{name}", vk.lib.vkGetInstanceProcAddr(self.handle, vk.ffi.new("char[]", name.encode())))
        result = vk.ffi.new(f"{out} *") if out else None
        function(*arguments, vk.ffi.NULL, *([result] if out else []))
        return result[0] if out else None

    def physical_devices(self) -> list:
        return enumerate_structs("vkEnumeratePhysicalDevices", "VkPhysicalDevice", self.handle)

    def devices(self) -> list[DeviceInfo]:
        from hierarchos.vulkan.probe import probe
        return [probe(physical, index, self.handle) for index, physical in enumerate(self.physical_devices())]

    def close(self) -> None:
        """Destroys the instance; may be called twice."""
        if self.handle is None:
            return
        if self._messenger is not None:
            self._extension_call("vkDestroyDebugUtilsMessengerEXT", self.handle, self._messenger)
        api().lib.vkDestroyInstance(self.handle, api().ffi.NULL)
        self.handle = None

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *_) -> None:
        self.close()
